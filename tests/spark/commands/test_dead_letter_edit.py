"""`dead-letters edit` at the terminal: a mended record takes its own place, and bronze stays."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from lakehouse.config.loading import load_target
from lakehouse.storage.names import table_name
from tests.spark.commands.test_idle_run import IdleLake

PLACE = "t/1.jsonl:1"
FIRST, LAST = {"id": 1, "v": 1, "qty": 1}, {"id": 1, "v": 3, "qty": 3}
BROKEN, MENDED = '{"id": 1, "v": 2, "qty": 99', '{"id": 1, "v": 2, "qty": 2}'


class Terminal:
    """Commands of one lake, run in this process; `warned` is what the last one said on stderr."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._at = ["--conf", str(root / "conf"), "--root", str(root)]
        self._capsys, self.warned = capsys, ""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What the command answers; its error where it ends with another code than 0."""
        ended: Any = 0
        try:
            run_command_line(app, [*arguments, *self._at])
        except SystemExit as left:
            ended = left.code
        told = self._capsys.readouterr()
        assert ended == code, told
        self.warned = told.err
        return str(told.err if code else told.out)


def versions(terminal: Terminal) -> list[list[int]]:
    query = "SELECT v, qty FROM gold.t_history ORDER BY valid_from NULLS FIRST, v"
    lines = terminal("sql", query, "--format", "json").splitlines()
    return [list(json.loads(line).values()) for line in lines]


@pytest.fixture
def terminal(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    """A lake that has applied the first and the third of three records of a key."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("COLUMNS", "200")
    lake, terminal = IdleLake(tmp_path, stored_as_scd_type=2), Terminal(tmp_path, capsys)
    lines = [json.dumps(FIRST), BROKEN, json.dumps(LAST)]
    lake.drop("1.jsonl").write_text("\n".join(lines))
    terminal("run")
    return terminal


@pytest.mark.slow
def test_a_mended_record_is_applied_at_its_own_place_and_bronze_keeps_what_came(
    terminal: Terminal, spark: SparkSession, tmp_path: Path
) -> None:
    mended = tmp_path / "mended.json"
    mended.write_text(MENDED)
    told = terminal("dead-letters", "edit", PLACE, "--file", str(mended))
    assert " ".join(told.split()) == "t 1 of 1 dead letters resolved"
    assert versions(terminal) == [[1, 1], [2, 2], [3, 3]]
    target = load_target(tmp_path / "conf", "local", str(tmp_path))
    raws = spark.table(table_name(target, "bronze", "t")).select("_raw").collect()
    assert BROKEN in [row["_raw"] for row in raws] and len(raws) == 3
    listed = json.loads(terminal("dead-letters", "list", "--all", "--format", "json"))
    assert listed["mended_at"] and listed["raw"] == BROKEN
    assert terminal("dead-letters", "list") == "0 dead letters\n"


@pytest.mark.slow
def test_a_record_is_mended_in_the_editor_and_a_rebuild_gives_the_same(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PLACE in terminal("dead-letters", "list")
    mended = tmp_path / "mended.json"
    mended.write_text(BROKEN)
    told = terminal("dead-letters", "edit", "t/1.jsonl:7", "--file", str(mended), code=2)
    assert "the position of an unresolved dead letter" in told
    assert "nothing was changed" in terminal("dead-letters", "edit", PLACE, "--file", str(mended))
    mended.write_text('{"id": 1, "v": 2, "qty": ')
    told = terminal("dead-letters", "edit", PLACE, "--file", str(mended))
    assert "0 of 1 dead letters resolved" in " ".join(told.split())
    assert "t: 1 stay, not_json" in told
    editor = tmp_path / "editor"
    opened = tmp_path / "opened"
    editor.write_text(f"#!/bin/sh\ncp $1 {opened}; echo '{MENDED}' > $1\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    told = terminal("dead-letters", "edit", PLACE)
    assert opened.read_text() == '{"id": 1, "v": 2, "qty": '
    assert "1 of 1 dead letters resolved" in " ".join(told.split())
    why = terminal("explain", "t", "--key", "1", "--format", "json")
    assert "mended by hand 2" in why and "rejected at first (not_json)" in why
    terminal("verify", "t", "--all")
    terminal("rebuild", "t")
    assert versions(terminal) == [[1, 1], [2, 2], [3, 3]]
    assert "mended by hand 2" in terminal("explain", "t", "--key", "1", "--format", "json")


@pytest.mark.slow
def test_a_mended_row_of_an_extract_is_supplied_and_an_erasure_takes_it_too(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    source = {"format": "snapshot", "path": "t", "mode": "full"}
    lake, terminal = IdleLake(tmp_path, source=source), Terminal(tmp_path, capsys)
    yaml = tmp_path / "conf" / "tables" / "t.yml"
    yaml.write_text(yaml.read_text().replace("sequence_by: v\n", ""))
    lake.drop("2026-01-01/a.jsonl", {"id": 1, "v": 1})
    day = tmp_path / "landing" / "t" / "2026-01-01" / "a.jsonl"
    day.write_text(day.read_text() + '{"id": 2, "name": "Lovelace"\n')
    terminal("run")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"id":2,"name":"Lovelace"}\n')))
    place = "t/2026-01-01/a.jsonl:1"
    told = terminal("dead-letters", "edit", place, "--file", "-")
    assert "1 of 1 dead letters resolved" in " ".join(told.split())
    query = "SELECT id, name FROM gold.t ORDER BY id"
    shown = [json.loads(x) for x in terminal("sql", query, "--format", "json").splitlines()]
    assert shown == [{"id": 1, "name": None}, {"id": 2, "name": "Lovelace"}]
    terminal("rebuild", "t")
    assert len(terminal("sql", query, "--format", "json").splitlines()) == 2
    told = terminal("erase", "t", "--key", "2", "--landing")
    assert "gone: " in told
    target = load_target(tmp_path / "conf", "local", str(tmp_path))
    assert spark.table(table_name(target, "bronze", "_mended_t")).isEmpty()
