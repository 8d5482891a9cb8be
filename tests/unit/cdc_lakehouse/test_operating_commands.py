import io
import re
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest

from cdc_lakehouse.cli.check import verify
from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work import erase as erasure
from cdc_lakehouse.cli.work import run
from cdc_lakehouse.cli.work.erase import Erasure
from cdc_lakehouse.cli.work.rounds import list_failures
from lakehouse.config.table import Table
from lakehouse.errors import EraseIncomplete, LawsBroken
from lakehouse.run.ledger import make_entry
from lakehouse.storage.lake import Lake

ORDERS = "table: orders\nsource: {format: debezium, path: shop}\nkeys: [id]\n"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    for folder in ("tables", "targets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tables" / "orders.yml").write_text(ORDERS)
    (tmp_path / "targets" / "local.yml").write_text("kind: local\nroot: .\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rebuild", "order"], "did you mean orders?"),
        (["erase", "order", "--key", '{"id": 7}'], "did you mean orders?"),
        (["erase", "orders", "--key", '{"name": 7}'], "--key"),
        (["erase", "orders", "--key", '{"id": 7, "more": 1}'], "--key"),
        (["maintain", "--table", "order"], "did you mean orders?"),
        (["dead-letters", "list", "--reason", "bad_vlaue"], "did you mean bad_value?"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    conf: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as left:
        run_command_line(app, [*arguments, "--conf", str(conf)])
    assert left.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rebuild", "erase", "maintain"])
def test_every_command_tells_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(app, [command, "--help"])
    assert f"{command} [OPTIONS]" in capsys.readouterr().out


class Typed(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_before_files_with_other_keys_go_and_a_program_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert erasure._ask_consent(["a.jsonl"]) and capsys.readouterr().out == ""
    for answer, agrees in (("y\n", True), ("n\n", False)):
        monkeypatch.setattr(sys, "stdin", Typed(answer))
        assert erasure._ask_consent(["a.jsonl"]) is agrees
        assert "Delete with all other keys in them?\n  a.jsonl" in capsys.readouterr().out
    assert erasure._ask_consent([])


def test_an_erasure_that_is_not_proved_ends_with_code_1(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what needs Spark only whether it proved that nothing is left."""
    (conf / "lake").mkdir()
    monkeypatch.setattr(erasure, "open_lake", lambda to, *_, **__: Lake(cast(Any, None), to))
    for proved, code in ((True, None), (False, 1)):
        monkeypatch.setattr(erasure, "erase_key", lambda *_, proved=proved: proved)
        try:
            ended = run_command_line(
                app, ["erase", "orders", "--key", "7", "--conf", str(conf), "--root", str(conf)]
            )
        except SystemExit as left:
            ended = left.code
        assert ended == code


def test_several_tables_are_all_verified_though_one_breaks_a_law(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, other = (table(name) for name in ("orders", "people"))
    seen: list[str] = []

    def check(of: Table) -> None:
        seen.append(of.table)
        if of is one:
            raise LawsBroken(of.table, ["one row per key"])

    (failure,) = verify._check_each([one, other], False, check)
    assert seen == ["orders", "people"] and isinstance(failure, LawsBroken)
    assert capsys.readouterr().out == "orders:\npeople:\n"
    with pytest.raises(LawsBroken):
        verify._check_each([one], False, check)


def test_an_erasure_that_fails_says_that_only_the_same_command_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = Erasure(table("orders"), {"id": "7"}, False, print)
    with pytest.raises(OSError, match="full"), erasure.tell_to_repeat(wanted):
        raise OSError("full")
    told = " ".join(capsys.readouterr().err.split())
    action = "do: repeat the command, nothing else ends it"
    assert told.startswith("warning: orders: the erasure is not complete") and action in told
    with pytest.raises(EraseIncomplete, match="do: repeat"), erasure.tell_to_repeat(wanted):
        raise EraseIncomplete("orders", ["a.parquet"])
    assert capsys.readouterr().err == ""


def test_a_failure_names_its_table_once() -> None:
    why = str(LawsBroken("orders", ["one row per key"]))
    entry = make_entry("r", "silver", "orders", datetime.now(timezone.utc), why)
    (failure,) = list_failures([entry])
    assert why.startswith("orders: ") and str(failure) == f"silver {why}"


def test_a_file_that_is_read_again_is_named_within_a_line(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = conf / "landing" / ("a" * 60) / "1.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    run._read_again(Chosen(conf, root=str(conf)), [file])
    assert re.fullmatch(r"1.jsonl is read again as again-\d+-1.jsonl\n", capsys.readouterr().err)


def table(name: str) -> Table:
    source = {"format": "ydb", "path": "t"}
    return Table.model_validate({"table": name, "source": source, "keys": ["id"]})


def test_an_erasure_is_named_by_a_digest_that_is_the_same_when_it_is_repeated() -> None:
    names = {Erasure(table("t"), {"id": key}, False, print).run_id for key in ("7", "7", "8")}
    assert len(names) == 2
    assert all(name.startswith("erase-") and len(name) == 30 for name in names)
