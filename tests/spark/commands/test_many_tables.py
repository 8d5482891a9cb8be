"""Many tables from one file, at the terminal."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.commands.test_dead_letter_edit import Terminal

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


def test_topics_become_tables_with_their_history_from_the_first_record_on(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "conf" / "tables" / "shop.yml").write_text(SHOP)
    drop(tmp_path, "shop/1.json", event("shop.a", 0, 1), event("shop.c", 0, 3, key=False))
    terminal("run")
    assert rows_of(terminal, "a") == [{"id": 1}]
    drop(tmp_path, "shop/2.json", event("shop.b", 0, 2), event("shop.a", 1, 4))
    (tmp_path / "conf" / "tables" / "c.yml").write_text("table: c\nkeys: [id]\n")
    terminal("run")
    found = [rows_of(terminal, name) for name in "abc"]
    assert found == [[{"id": 1}, {"id": 4}], [{"id": 2}], [{"id": 3}]]
    terminal("rebuild", "b")
    assert rows_of(terminal, "b") == [{"id": 2}]
