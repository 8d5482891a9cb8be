"""What capture does without a database: its settings, its files, its state, what status shows."""

import gzip
import json
import multiprocessing
import threading
import time
from pathlib import Path

import msgspec
import pytest
import yaml

from cdc_lakehouse.capture import engine, session
from cdc_lakehouse.capture.database import Database
from cdc_lakehouse.capture.engine import (
    ConversionLog,
    count_whole,
    find_jars,
    find_unreadable,
    read_status,
)
from cdc_lakehouse.capture.files import CaptureRefused, LandingFiles, Position, State
from cdc_lakehouse.capture.settings import load_capture
from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from cdc_lakehouse.cli.options import Chosen
from gold.capture_status import CaptureStatus, list_capture_lines, write_capture
from gold.status.alarms import find_changes
from gold.status.metrics import render_metrics
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors, SparkUnavailable

GIVEN = {
    "name": "shop",
    "source": "postgresql://me@db/shop",
    "tables": ["public.*", "sales.orders"],
    "except": ["public.audit_*"],
    "signals": "public.dbz_signal",
}
LISTED = Path(engine.__file__).with_name("postgresql.jars").read_text()


def written(conf: Path, **more: object) -> Path:
    conf.mkdir(exist_ok=True)
    (conf / "capture.yml").write_text(yaml.safe_dump(GIVEN | more))
    return conf


def test_patterns_choose_tables_and_never_the_signals(tmp_path: Path) -> None:
    settings = load_capture(written(tmp_path / "conf"), Target(root=str(tmp_path)), None)
    chosen = ["public.orders", "public.audit_log", "public.dbz_signal", "sales.orders", "sales.x"]
    assert [name for name in chosen if settings.matches(name)] == ["public.orders", "sales.orders"]
    assert settings.landing == f"{tmp_path}/landing/shop"
    assert settings.state == f"{tmp_path}/capture/shop"


def test_with_a_root_everything_lies_below_it(tmp_path: Path) -> None:
    conf = written(tmp_path / "conf", landing="/elsewhere", state="/elsewhere/too")
    settings = load_capture(conf, Target(root=str(tmp_path)), str(tmp_path))
    assert settings.landing == f"{tmp_path}/landing/shop"
    assert settings.state == f"{tmp_path}/capture/shop"
    given = load_capture(conf, Target(root=str(tmp_path)), None)
    assert (given.landing, given.state) == ("/elsewhere", "/elsewhere/too")


def test_a_tilde_is_the_home_of_who_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    conf = written(tmp_path / "conf", landing="~/landed", state="~/state")
    settings = load_capture(conf, Target(root="/elsewhere"), None)
    assert (settings.landing, settings.state) == (f"{tmp_path}/landed", f"{tmp_path}/state")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("name", "Shop", "small letters, digits and _"),
        ("source", "postgresql://me:secret@db", "a URL with a database"),
        ("signals", "dbz_signal", "SCHEMA.TABLE"),
        ("tables", ["orders"], "SCHEMA.TABLE"),
        ("debezium", {"slot.name": "mine"}, "debezium.slot.name"),
        ("debezium", {"key.converter": "x"}, "debezium.key.converter"),
        ("debezium", {"snapshot.delay.ms": 5}, "debezium.snapshot.delay.ms"),
        ("max_wal", "much", "could not parse value and unit"),
        ("tabels", [], "did you mean tables?"),
    ],
)
def test_a_wrong_key_is_an_error_that_names_it(
    tmp_path: Path, key: str, value: object, said: str
) -> None:
    with pytest.raises(ManyConfigurationErrors) as refused:
        load_capture(written(tmp_path, **{key: value}), Target(root=str(tmp_path)), None)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_properties_that_are_not_captures_own_pass(tmp_path: Path) -> None:
    passed = {
        "value.converter.schemas.enable": False,
        "snapshot.fetch.size": 10,
        "converters": "isbn",
        "isbn.type": "io.debezium.test.IsbnConverter",
    }
    given = written(tmp_path, debezium=passed, max_wal="10 GB")
    settings = load_capture(given, Target(root="x"), None)
    assert (settings.debezium, settings.max_wal) == (passed, 10**10)


def test_offsets_go_on_over_restarts_and_over_a_lost_state(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    first = LandingFiles(target, str(tmp_path / "a"), None)
    began = first.next
    first.write([("t", '{"id":1}', "null", "{}"), ("t", "null", '{"op":"c"}', '{"h":1}')])
    (file,) = (tmp_path / "a").iterdir()
    lines = gzip.decompress(file.read_bytes()).splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["offset"] for record in records] == [began, began + 1]
    assert records[1]["headers"] == {"h": 1}
    assert LandingFiles(target, str(tmp_path / "a"), 3).next == began + 2
    file.unlink()
    assert LandingFiles(target, str(tmp_path / "a"), None).next > began + 1


def test_a_large_batch_becomes_several_files(tmp_path: Path) -> None:
    files = LandingFiles(Target(root=str(tmp_path)), str(tmp_path / "a"), 0)
    files.write([("t", "null", json.dumps("x" * (12 << 20)), "{}")] * 4)
    assert (files.written, files.next) == (2, 4)


def test_a_torn_history_is_replaced_by_its_copy(tmp_path: Path) -> None:
    state = State(str(tmp_path))
    assert not state.mend_history()
    state.history.write_bytes(b'{"ddl":"a"}\n{"ddl":"b"}\n')
    state.keep_history()
    assert not state.mend_history()
    for torn in (b"", b'{"ddl":"a"}\n{"dd', b'{"ddl":"a"}\n{"ddl":"b"}'):
        state.history.write_bytes(torn)
        assert state.mend_history()
        assert state.history.read_bytes().endswith(b'"b"}\n')


def test_a_copy_of_the_history_has_whole_lines_only(tmp_path: Path) -> None:
    state = State(str(tmp_path))
    state.history.write_bytes(b'{"ddl":"a"}\n{"dd')
    state.keep_history()
    assert state.mend_history()
    assert state.history.read_bytes() == b'{"ddl":"a"}\n'


def test_a_snapshot_is_complete_when_the_place_in_the_log_says_so() -> None:
    assert Position().is_in_snapshot
    inside = {"lsn": 5, "snapshot": "INITIAL", "snapshot_completed": False}
    assert Position(offset=inside).is_in_snapshot
    assert not Position(offset=inside | {"snapshot_completed": True}).is_in_snapshot
    rows = {"lsn": 6, "snapshot": "INCREMENTAL", "incremental_snapshot_collections": "[]"}
    assert not Position(offset=rows).is_in_snapshot
    assert Position(offset=rows).reads_rows


def hold(folder: str) -> None:
    with State(folder).held():
        pass


def test_a_second_capture_with_the_same_state_is_refused(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with State(folder).held():
        other = multiprocessing.get_context("spawn").Process(target=hold, args=(folder,))
        other.start()
        other.join()
        assert other.exitcode == 1
        with pytest.raises(CaptureRefused, match="captures with"), State(folder).held():
            pass
    state = State(folder)
    with state.held():
        state.note(next=7, offset={"lsn": 5})
    again = State(folder)
    with again.held():
        assert again.position == Position(next=7, offset={"lsn": 5})
        again.forget(tables=None)
        assert again.position == Position(next=7)


def test_a_state_that_cannot_be_read_is_as_good_as_lost(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(b'{"next":')
    state = State(str(tmp_path))
    with state.held():
        assert state.position == Position()


def test_a_late_capture_is_said_measured_and_an_alarm(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    assert list_capture_lines(target) == []
    status = CaptureStatus("shop", "stopped", 0.0, 600, 1 << 20, 1.0, 5, 2 << 20, 7.0)
    write_capture(target, status)
    late, kept, line = list_capture_lines(target)
    assert late.startswith("capture: LATE: ") and "max_lag is 10 min" in late
    assert kept.startswith("capture: LOG: the database keeps 2 MB")
    assert line.startswith("capture shop: stopped")
    assert 'lakehouse_capture_kept_bytes{name="shop"} 2097152.0' in render_metrics([], "1", status)
    begun = find_changes({}, [], [("capture: LATE", late)])
    assert begun == [("capture: LATE", late)]
    assert find_changes({"capture: LATE": late}, []) == [("capture: LATE", "capture: LATE is over")]


def test_a_capture_that_took_everything_tells_its_age_and_is_not_late(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    status = CaptureStatus("shop", "complete", time.time() - 1100, 600, 1 << 20, 100.0)
    write_capture(target, status)
    assert list_capture_lines(target) == [
        "capture shop: complete, captured everything as of 20 min ago"
    ]
    write_capture(target, msgspec.structs.replace(status, kept_bytes=2 << 20))
    assert list_capture_lines(target)[0].startswith("capture: LOG: ")


class Hasty(threading.Event):
    """An event for which nobody waits."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


@pytest.mark.parametrize(("snapshot", "lives"), [("INITIAL", 6), (None, 10)])
def test_an_engine_that_fails_again_and_again_ends_the_capture_unless_it_moves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: str | None, lives: int
) -> None:
    conf, lived = written(tmp_path / "conf"), list[int]()
    (conf / "targets").mkdir()
    (conf / "targets" / "local.yml").write_text(f"kind: local\nroot: {tmp_path}\n")
    capture = session.Capture(Chosen(conf=conf))

    def fail(*_: object) -> bool:
        lived.append(len(lived))
        offset = {"snapshot": snapshot, "lsn": min(len(lived), 5)}
        capture.state.note(next=len(lived), offset=offset)
        raise session.EngineFailed("a value is NaN", "read it")

    monkeypatch.setattr(capture, "_work", fail)
    with pytest.raises(session.EngineFailed):
        capture.run(once=True, snapshot=False, stop=Hasty())
    assert len(lived) == lives


def test_what_debezium_could_not_convert_is_read_from_whole_lines_of_its_log(
    tmp_path: Path,
) -> None:
    file, at = tmp_path / "debezium.log", "2026-11-29 08:00:00:001 [t] "
    lines = (
        f"{at}WARN io.debezium.X - Unexpected value for JDBC type 4 and column",
        f"{at}ERROR io.debezium.Y - Failed to properly convert data value for 'public.t.at' of",
    )
    file.write_text(f"{lines[0]} before int4: class=Integer[]\n")
    log = ConversionLog(file)
    with file.open("a") as more:
        more.write(f"{lines[0]} n-element _int4(10, 0): class=Integer[]\n{at}INFO x - y\n")
        more.write(f"{lines[1]} type date:\njava.lang.X: Unexpected value for JDBC type 4\n")
        more.write(f"{lines[0]} val num")
        more.flush()
        assert log.read_columns() == ["n", "public.t.at"]
        more.write("eric DEFAULT VALUE NULL: class=SpecialValueDecimal\n")
    assert log.read_columns() == ["val"]
    assert log.read_columns() == []
    assert ConversionLog(tmp_path / "none").read_columns() == []


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ('["[Ljava.lang.String;@4db3515e","[Ljava.lang.String;@1f"]', ["shop.t.tags"]),
        ('["[[Ljava.lang.String;@4db3515e"]', ["shop.t.tags"]),
        ('["[B@4db3515e"]', ["shop.t.tags"]),
        ('["[x]"]', []),
        ('"[Ljava.lang.String;@4db3515e"', []),
        ("null", []),
    ],
)
def test_an_array_of_names_of_java_objects_is_unreadable(tags: str, found: list[str]) -> None:
    value = f'{{"payload":{{"before":null,"after":{{"id":1,"tags":{tags}}}}}}}'
    assert find_unreadable("shop.t", value) == found


def test_unconverted_values_are_wrong_until_the_next_snapshot(tmp_path: Path) -> None:
    state, target = State(str(tmp_path / "state")), Target(root=str(tmp_path))
    with state.held():
        state.note(next=7, offset={"lsn": 5}, unconverted=2, column="val")
    with state.held():
        assert (state.position.unconverted, state.position.column) == (2, "val")
        state.forget(tables=["public.t"])
    assert (state.position.unconverted, state.position.column) == (0, "")
    status = CaptureStatus("shop", "snapshot", 0.0, 600, 1, unconverted=2, column="val")
    write_capture(target, status)
    first = list_capture_lines(target)[0]
    assert first.startswith("capture: VALUES: Debezium could not convert 2 values, last of column")
    assert "`lakehouse capture --snapshot`" in first
    assert 'capture_unconverted_values{name="shop"} 2.0' in render_metrics([], "1", status)


def jars_of(tmp_path: Path, source: str, folder: Path | None) -> list[str]:
    given = {"source": source} | ({"jars": str(folder)} if folder else {})
    settings = load_capture(written(tmp_path / "conf", **given), Target(root=str(tmp_path)), None)
    return find_jars(settings, Database(settings, settings.url))


def test_a_machine_without_a_network_names_a_folder_with_every_jar(tmp_path: Path) -> None:
    (folder := tmp_path / "jars").mkdir()
    names = ["-".join(line.split(":")[1:3]) for line in LISTED.split()]
    with pytest.raises(ConfigurationError, match=f"jars, without {names[0]}.jar\n"):
        jars_of(tmp_path, "postgresql://me@db/shop", folder)
    for name in names[:-1]:
        (folder / f"{name}.jar").write_bytes(b"another one")
    with pytest.raises(ConfigurationError, match=f"without {names[-1]}.jar\n.*all {len(names)}"):
        jars_of(tmp_path, "postgresql://me@db/shop", folder)
    (folder / f"{names[-1]}.jar").write_bytes(b"another one")
    with pytest.raises(SparkUnavailable, match=f"{names[0]}.jar is not the jar of that name"):
        jars_of(tmp_path, "postgresql://me@db/shop", folder)


def test_of_a_connector_without_a_list_all_jars_of_a_folder_count(tmp_path: Path) -> None:
    (folder := tmp_path / "jars").mkdir()
    for named in (None, folder):
        with pytest.raises(ConfigurationError, match="download Debezium's plug-in"):
            jars_of(tmp_path, "oracle://me@db/shop", named)
    (folder / "ours.jar").touch()
    assert jars_of(tmp_path, "oracle://me@db/shop", folder) == [f"{folder}/ours.jar"]


def test_a_check_names_all_tables_within_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    tables = [f"SHOP.ORDERS_OF_{year}" for year in range(2020, 2028)]
    conf = written(tmp_path / "conf", source="oracle://me@db/shop", tables=tables)
    (conf / "targets").mkdir()
    (conf / "tables").mkdir()
    (conf / "targets" / "local.yml").write_text("kind: local\nroot: .\n")
    run_command_line(app, ["capture", "--check", "--conf", str(conf), "--root", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    ready = "shop: the database is ready: " + ", ".join(tables)
    assert " ".join(map(str.strip, lines)) == ready
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("statuses", "is_open", "whole"),
    [
        ([None, None], False, (2, False)),  # rows of a snapshot, and heartbeats
        (["BEGIN", None, "END", None], False, (4, False)),
        (["BEGIN", None, "END", "BEGIN", None], False, (3, True)),
        ([None, "BEGIN", None], False, (1, True)),
        ([None, None], True, (0, True)),
        ([None, "END"], True, (2, False)),
    ],
)
def test_only_whole_transactions_are_acknowledged(
    statuses: list[str | None], is_open: bool, whole: tuple[int, bool]
) -> None:
    """The insert of a changed key stands at the position of its delete, which a batch can end."""
    assert count_whole(statuses, is_open) == whole


def test_records_of_the_transaction_topic_say_where_one_begins_and_ends() -> None:
    begin = '{"schema":{},"payload":{"status":"BEGIN","id":"1"}}'
    assert list(map(read_status, (begin, begin.replace("BEGIN", "END"), "{}"))) == [
        "BEGIN", "END", None,
    ]  # fmt: skip
