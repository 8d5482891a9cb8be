"""The mark of a settled lake holds only as long as nothing at all is different."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_lakehouse.cli.work import idle
from cdc_lakehouse.cli.work.idle import look_at_inputs
from gold.status.status_file import KnownStatus, write_known
from lakehouse.config.loading import load_tables, load_target
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.settled import (
    Mark,
    PendingTable,
    digest_of_lake,
    remove_mark,
    write_mark,
)

NAMES = ("orders", "people")
NOW = 1_800_000_000.0


def document(name: str, **options: object) -> dict[str, Any]:
    source = {"format": "rows", "path": f"shop/{name}"} | options
    return {"table": name, "source": source, "keys": ["id"], "sequence_by": "v"}


def save(root: Path, document: dict[str, Any]) -> None:
    file = root / "conf" / "tables" / f"{document['table']}.yml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(document))


def commit(folder: Path, version: int) -> None:
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
    (folder / "_delta_log" / f"{version:020}.json").write_text(f"{version}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A configuration, landing folders with a file each, and a lake as a run leaves it."""
    (tmp_path / "conf" / "targets").mkdir(parents=True)
    (tmp_path / "conf" / "targets" / "local.yml").write_text("kind: local\nroot: .\n")
    for name in NAMES:
        save(tmp_path, document(name))
        landing = tmp_path / "landing" / "shop" / name
        landing.mkdir(parents=True)
        (landing / "a.jsonl").write_text('{"id": 1, "v": 1}\n')
        for table in (f"bronze/{name}", f"silver/{name}_changes", f"silver/{name}"):
            commit(tmp_path / "lake" / table, 0)
    commit(tmp_path / "lake" / "silver" / "_runs", 0)
    (tmp_path / "lake" / "gold").mkdir()
    (tmp_path / "lake" / "gold" / "_views.json").write_text("[]")
    return tmp_path


def loaded(root: Path) -> tuple[Target, list[Table]]:
    return load_target(root / "conf", "local", str(root)), load_tables(root / "conf")


def leave_mark(root: Path, **fields: Any) -> None:
    target, tables = loaded(root)
    kept = {
        "inputs": look_at_inputs(target, tables),
        "lake": digest_of_lake(target),
        "marked_at": NOW,
    }
    write_mark(target, Mark(**(kept | {"waiting": [], "warnings": []} | fields)))
    write_known(target, KnownStatus(commit=0))


def is_idle(root: Path, merges: bool = False) -> bool:
    target, tables = loaded(root)
    inputs = look_at_inputs(target, tables)
    return inputs is not None and idle.answer_from_mark(target, tables, inputs, merges)


def set_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    monkeypatch.setattr("time.time", lambda: now)


@pytest.fixture(autouse=True)
def _just_after_the_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, NOW + 1)


def test_nothing_new_is_said_and_warnings_are_repeated(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_mark(root, warnings=[("orders", "column x never came")])
    assert is_idle(root)
    told = capsys.readouterr()
    assert told.out == "nothing new: 2 tables, all up to date\n"
    assert "orders: column x never came" in told.err


def landing(root: Path) -> Path:
    return root / "landing" / "shop" / "orders"


def new_file(root: Path) -> None:
    (landing(root) / "b.jsonl").write_text("{}\n")


def new_file_below(root: Path) -> None:
    (landing(root) / "2026").mkdir()
    (landing(root) / "2026" / "b.jsonl").write_text("{}\n")


def touched(root: Path) -> None:
    (landing(root) / "a.jsonl").touch()


def same_size_and_time(root: Path) -> None:
    """An overwritten file whose time of change is set back."""
    file = landing(root) / "a.jsonl"
    state = file.stat()
    file.write_text('{"id": 2, "v": 1}\n')
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def replaced(root: Path) -> None:
    """Another file of the same name, size and time."""
    file = landing(root) / "a.jsonl"
    shutil.copy2(file, file.with_name("other"))
    file.with_name("other").replace(file)


def folder_made_anew(root: Path) -> None:
    shutil.copytree(landing(root), root / "copy")
    shutil.rmtree(landing(root))
    (root / "copy").rename(landing(root))


def folder_gone(root: Path) -> None:
    shutil.rmtree(landing(root))


def file_gone(root: Path) -> None:
    (landing(root) / "a.jsonl").unlink()


def linked_file(root: Path) -> None:
    (root / "elsewhere.jsonl").write_text("{}\n")
    (landing(root) / "b.jsonl").symlink_to(root / "elsewhere.jsonl")


def linked_folder(root: Path) -> None:
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "b.jsonl").write_text("{}\n")
    (landing(root) / "more").symlink_to(root / "elsewhere")


def link_to_itself(root: Path) -> None:
    (landing(root) / "again").symlink_to(landing(root))


def broken_link(root: Path) -> None:
    (landing(root) / "b.jsonl").symlink_to(root / "nowhere")


def other_options(root: Path) -> None:
    save(root, document("orders") | {"on_delete": "flag"})


def other_rule(root: Path) -> None:
    rule = {"type": "expect_column_values_to_not_be_null", "column": "v", "severity": "critical"}
    save(root, document("orders") | {"expectations": [rule]})


def other_table(root: Path) -> None:
    save(root, document("more"))
    (root / "landing" / "shop" / "more").mkdir()


def table_removed(root: Path) -> None:
    (root / "conf" / "tables" / "orders.yml").unlink()


def other_target(root: Path) -> None:
    text = "kind: local\nroot: .\nsensitive: omit\n"
    (root / "conf" / "targets" / "local.yml").write_text(text)


def another_run(root: Path) -> None:
    commit(root / "lake" / "silver" / "_runs", 1)


def maintained(root: Path) -> None:
    commit(root / "lake" / "silver" / "people", 1)


def replayed(root: Path) -> None:
    commit(root / "lake" / "silver" / "people_dead_letters", 0)


def table_of_lake_deleted(root: Path) -> None:
    shutil.rmtree(root / "lake" / "silver" / "people")


def table_of_lake_restored(root: Path) -> None:
    """A table of the same version, from a copy."""
    table = root / "lake" / "silver" / "people"
    shutil.copytree(table, root / "copy")
    shutil.rmtree(table)
    (root / "copy").rename(table)


def log_of_table_emptied(root: Path) -> None:
    shutil.rmtree(root / "lake" / "silver" / "people" / "_delta_log")


def gold_dropped(root: Path) -> None:
    shutil.rmtree(root / "lake" / "gold")


def views_written_anew(root: Path) -> None:
    (root / "lake" / "gold" / "_views.json").write_text("[ ]")


def mark_damaged(root: Path) -> None:
    (root / "lake" / "_settled.json").write_text("{")


def mark_gone(root: Path) -> None:
    remove_mark(loaded(root)[0])


def status_gone(root: Path) -> None:
    (root / "lake" / "_status.json").unlink()


@pytest.mark.parametrize(
    "disturb",
    [
        new_file, new_file_below, touched, same_size_and_time, replaced, folder_made_anew,
        folder_gone, file_gone, linked_file, linked_folder, link_to_itself, broken_link,
        other_options, other_rule, other_table, table_removed, other_target, another_run,
        maintained, replayed, table_of_lake_deleted, table_of_lake_restored, log_of_table_emptied,
        gold_dropped, views_written_anew, mark_damaged, mark_gone,
        status_gone,
    ],
)  # fmt: skip
def test_any_difference_starts_spark(
    root: Path, disturb: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    leave_mark(root)
    assert is_idle(root)
    capsys.readouterr()
    disturb(root)
    assert not is_idle(root)
    assert capsys.readouterr() == ("", "")


def test_a_file_that_is_renamed_when_it_is_complete_starts_spark(root: Path) -> None:
    unfinished = landing(root) / "b.jsonl.tmp"
    unfinished.write_text("{}\n")
    leave_mark(root)
    unfinished.rename(landing(root) / "b.jsonl")
    assert not is_idle(root)


def test_a_file_that_came_while_the_run_worked_starts_spark(root: Path) -> None:
    """The mark has the landing folders as they were before bronze listed them."""
    target, tables = loaded(root)
    before = look_at_inputs(target, tables)
    assert before is not None
    new_file(root)
    commit(root / "lake" / "bronze" / "orders", 1)
    leave_mark(root, inputs=before)
    assert not is_idle(root)


def test_a_mark_of_another_version_starts_spark(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_mark(root)
    monkeypatch.setattr("lakehouse.storage.settled.version", lambda _: "0.0.1")
    assert not is_idle(root)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param((NOW + 50, False), True, id="not due"),
        pytest.param((NOW + 100, False), False, id="due"),
        pytest.param((NOW - 1, False), False, id="the clock was set back"),
        pytest.param((NOW + 50, True), False, id="asked to merge"),
    ],
)
def test_what_waits_is_said_until_it_is_due(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[float, bool],
    expected: bool,
) -> None:
    now, merges = asked
    set_clock(monkeypatch, now)
    waits = PendingTable(table="orders", records=3, since=NOW - 100, due_at=NOW + 100)
    leave_mark(root, waiting=[waits])
    assert is_idle(root, merges) is expected
    told = capsys.readouterr().out
    if expected:
        assert "orders: 3 changes to be merged, not before 2027-01-15 08:01:40 UTC\n" in told


@pytest.mark.parametrize(
    "options",
    [
        {"path": "shop/*"},
        {"format": "snapshot", "mode": "full"},
        {"once": True},
        {"path": None, "kafka": {"topic": "t", "bootstrap_servers": "localhost:1"}},
        {"path": "s3a://bucket/orders"},
    ],
    ids=str,
)
def test_feeds_that_only_spark_can_look_at(root: Path, options: dict[str, Any]) -> None:
    given = {key: value for key, value in document("orders", **options)["source"].items() if value}
    whole = document("orders") | {"source": given}
    if options.get("format") == "snapshot":
        del whole["sequence_by"]
    if "kafka" in options:
        given["format"] = "debezium"
        del whole["sequence_by"]
    save(root, whole)
    target, tables = loaded(root)
    assert look_at_inputs(target, tables) is None
