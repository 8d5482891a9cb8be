"""Many tables from one file, and records with several rows, at the terminal."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.commands.test_dead_letter_edit import Terminal

CANAL = """
table: t
source: {format: canal, path: t}
keys: [id]
columns: {id: bigint, qty: int}
"""
SHOP = """
tables: "shop.*"
source: {format: debezium, path: shop}
"""


@pytest.fixture
def terminal(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "conf" / "tables").mkdir(parents=True)
    (tmp_path / "conf" / "targets").mkdir()
    (tmp_path / "conf" / "targets" / "local.yml").write_text(f"kind: local\nroot: {tmp_path}\n")
    return Terminal(tmp_path, capsys)


def drop(root: Path, name: str, *records: dict[str, Any]) -> None:
    file = root / "landing" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def rows_of(terminal: Terminal, table: str) -> list[dict[str, Any]]:
    lines = terminal("sql", f"SELECT * FROM gold.{table} ORDER BY id", "--format", "json")
    return [json.loads(line) for line in lines.splitlines()]


def event(topic: str, offset: int, id: int, key: bool = True) -> dict[str, Any]:
    value = {"op": "c", "before": None, "after": {"id": id}, "source": {}}
    given = {"id": id} if key else None
    return {"topic": topic, "partition": 0, "offset": offset, "key": given, "value": value}


@pytest.mark.slow
def test_topics_become_tables_with_their_history_from_the_first_record_on(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "conf" / "tables" / "shop.yml").write_text(SHOP)
    drop(tmp_path, "shop/1.json", event("shop.a", 0, 1), event("shop.c", 0, 3, key=False))
    assert "1 new table: a\n" in terminal("run")
    assert "c: waits, as no record of shop.c has a key" in terminal.warned
    assert rows_of(terminal, "a") == [{"id": 1}]
    assert terminal("status").count("1 new table: a") == 1
    assert "c: waits" in terminal.warned
    drop(tmp_path, "shop/2.json", event("shop.b", 0, 2), event("shop.a", 1, 4))
    drop(tmp_path, "shop/shop.d/1.json", event("shop.d", 0, 5))
    (tmp_path / "conf" / "tables" / "c.yml").write_text("table: c\nkeys: [id]\n")
    assert "2 new tables: b, d\n" in terminal("run")
    found = [rows_of(terminal, name) for name in "abc"]
    assert found == [[{"id": 1}, {"id": 4}], [{"id": 2}], [{"id": 3}]]
    assert '"n":1' in terminal("sql", "SELECT count(*) AS n FROM bronze.c", "--format", "json")
    shutil.rmtree(tmp_path / "landing" / "shop" / "shop.d")
    assert "new table" not in terminal("run")
    assert "shop.d does not exist" in " ".join(terminal.warned.split())
    assert "new table" not in terminal("status")
    assert rows_of(terminal, "d") == [{"id": 5}]
    terminal("rebuild", "b")
    assert rows_of(terminal, "b") == [{"id": 2}]


def message(number: int, operation: str, *rows: dict[str, str], **old: Any) -> dict[str, Any]:
    return {"data": [*rows], "es": number, "id": number, "type": operation, "table": "t"} | old


@pytest.mark.slow
def test_each_row_of_a_record_is_a_change_that_can_be_mended_and_explained(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "conf" / "tables" / "t.yml").write_text(CANAL)
    first = message(1, "INSERT", {"id": "1", "qty": "1"}, {"id": "2", "qty": "x"})
    moved = message(2, "UPDATE", {"id": "9", "qty": "1"}, old=[{"id": "1"}])
    drop(tmp_path, "t/1.jsonl", first, moved, message(3, "ALTER"))
    assert "1 filtered" in terminal("run")
    assert rows_of(terminal, "t") == [{"id": 9, "qty": 1}]

    mended = tmp_path / "mended.json"
    mended.write_text(
        json.dumps(message(1, "INSERT", {"id": "1", "qty": "1"}, {"id": "2", "qty": "2"}))
    )
    terminal("dead-letters", "edit", "t/1.jsonl:0", "--file", str(mended))
    assert rows_of(terminal, "t") == [{"id": 2, "qty": 2}, {"id": 9, "qty": 1}]
    terminal("verify", "t")
    assert "t/1.jsonl:0" in terminal("explain", "t", "--key", '{"id": 2}')
    told = terminal("erase", "t", "--key", '{"id": 2}', code=2)
    assert "rows of other keys" in told
    terminal("rebuild", "t")
    assert rows_of(terminal, "t") == [{"id": 2, "qty": 2}, {"id": 9, "qty": 1}]
