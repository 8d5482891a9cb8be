"""`lakehouse plan`: what the YAML would change."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from gold.status.plan import Held, is_wider, plan_changes
from lakehouse.config.table import Table
from tests.unit.bronze.test_silence import changes

HELD = {"id": "long", "qty": "integer", "price": "decimal(12,2)", "tags": "array"}


def table(columns: dict[str, Any] | None = None, **options: Any) -> Table:
    source = {"format": "debezium", "path": "t"}
    given = {"table": "t", "source": source, "keys": ["id"], "columns": columns or {}}
    return Table.model_validate(given | options)


def held(differences: Sequence[str] = ()) -> Held:
    return Held(HELD, differences, 20, 7)


@pytest.mark.parametrize(
    ("columns", "effect"),
    [
        ({}, "nothing"),
        ({"id": "bigint", "qty": "INT", "price": "decimal(12, 2)"}, "nothing"),
        ({"tags": "array<string>"}, "nothing"),
        ({"qty": "bigint"}, "widen"),
        ({"price": "decimal(14,4)"}, "widen"),
        ({"price": "decimal(13,4)"}, "rebuild"),
        ({"qty": "string"}, "rebuild"),
        ({"id": "int"}, "rebuild"),
        ({"note": "string"}, "add"),
        ({"note": "string", "qty": "bigint"}, "widen"),
    ],
    ids=str,
)
def test_columns_decide_the_effect(columns: dict[str, str], effect: str) -> None:
    assert plan_changes(table(columns), held()).effect == effect


def test_a_table_that_is_not_there_is_new() -> None:
    assert plan_changes(table(), None).effect == "new"


def test_other_keys_are_a_rebuild_with_its_size() -> None:
    found = plan_changes(table({"qty": "bigint"}), held(["keys was id, is id, shop"]))
    assert (found.effect, found.records) == ("rebuild", 20)
    assert found.why == ["keys was id, is id, shop", "column qty was int, is bigint"]


def test_columns_with_new_names_only_are_no_rebuild_that_waits_for_a_command() -> None:
    renamed = held(["column qty is renamed to quantity"])._replace(renamed=True)
    columns = {"quantity": {"type": "int", "renamed_from": "qty"}}
    found = plan_changes(table(columns), renamed)
    assert (found.effect, found.records) == ("rename", 20)
    assert found.why == ["column qty is renamed to quantity"]


def test_a_column_that_is_left_out_is_not_added() -> None:
    assert (
        plan_changes(table({"note": "string"}, except_column_list=["note"]), held()).effect
        == "nothing"
    )
    assert plan_changes(table({"note": "string"}, column_list=["id"]), held()).effect == "nothing"


def test_another_cluster_by_needs_no_rebuild() -> None:
    days = table({"day": "date"}, cluster_by=["day"])
    known = held()._replace(columns=HELD | {"day": "date"})
    found = plan_changes(days, known)
    assert found.effect == "cluster"
    assert found.why == ["cluster_by was nothing, is day: no row changes, files are rewritten"]
    assert plan_changes(days, known._replace(clustered=["day"])).effect == "nothing"
    assert plan_changes(table(), known._replace(clustered=["day"])).effect == "cluster"


@pytest.mark.parametrize(
    ("before", "now", "wider"),
    [
        ("byte", "long", True),
        ("long", "integer", False),
        ("integer", "decimal(12,2)", True),
        ("long", "decimal(12,2)", False),
        ("float", "double", True),
        ("double", "float", False),
        ("date", "timestamp_ntz", True),
        ("string", "integer", False),
    ],
)
def test_wider_types(before: str, now: str, wider: bool) -> None:
    assert is_wider(before, now) is wider


def test_the_command_reads_a_lake_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    changes(tmp_path, id=[1, 2], qty=[1, None])
    for folder in ("tables", "targets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "targets" / "local.yml").write_text(f"kind: local\nroot: {tmp_path}\n")
    source = "source: {format: debezium, path: t}\nkeys: [id]\n"
    text = f"table: orders\n{source}columns: {{qty: string}}\n"
    (tmp_path / "tables" / "orders.yml").write_text(text)
    (tmp_path / "tables" / "people.yml").write_text(f"table: people\n{source}")
    run_command_line(app, ["plan", "--conf", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["orders", "rebuild", "2", "lakehouse", "rebuild", "orders"]
    assert lines[3].split()[:2] == ["people", "new"]
    assert lines[4] == "orders: column qty was bigint, is string"
    run_command_line(app, ["plan", "--conf", str(tmp_path), "--format", "json"])
    assert json.loads(capsys.readouterr().out.splitlines()[0])["effect"] == "rebuild"
    run_command_line(app, ["plan", "--conf", str(tmp_path), "--format", "markdown"])
    assert capsys.readouterr().out.splitlines() == [
        "| table | effect | records | rows | do |",
        "|---|---|--:|--:|---|",
        "| orders | rebuild | 2 |  | `lakehouse rebuild orders` |",
        "| people | new |  |  | `lakehouse run --table people` |",
        "",
        "- `orders`: column qty was bigint, is string",
        "- `people`: its first run makes it",
    ]
