"""A column that the source renamed: the change of the YAML, records of both names, a rebuild."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_lakehouse.cli.begin.plan import plan_tables
from cdc_lakehouse.cli.work.rebuild import rebuild_renamed
from cdc_lakehouse.cli.work.rounds import Round
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from silver import job as silver
from silver.audit.verify import verify
from tests.conftest import target_at
from tests.helpers.lakes import land, quiet, rows, run

OLD: dict[str, Any] = {
    "table": "t",
    "source": {"format": "rows", "path": "t"},
    "keys": ["id"],
    "columns": {"id": "bigint", "customer": "string", "city": "string", "at": "bigint"},
    "sequence_by": "at",
    "apply_as_deletes": "op = 'D'",
    "except_column_list": ["op"],
}
NEW = OLD | {
    "columns": {
        "id": "bigint", "customer_name": {"type": "string", "renamed_from": "customer"},
        "city": "string", "at": "bigint",
    }
}  # fmt: skip
HISTORY = {"stored_as_scd_type": 2, "publish": "table"}
BEFORE = [
    {"id": 1, "at": 10, "customer": "Ada", "city": "Bonn"},
    {"id": 2, "at": 11, "customer": "Bob", "city": "Kiel"},
    {"id": 1, "at": 20, "city": "Ulm"},
    {"id": 3, "at": 21, "customer": "Cy", "city": None},
    {"id": 3, "at": 22, "op": "D"},
]
AFTER = [
    {"id": 1, "at": 30, "customer_name": "Ada L."},
    {"id": 2, "at": 11, "customer": "Bob", "city": "Kiel"},
    {"id": 2, "at": 12, "customer": "Rob"},
    {"id": 2, "at": 31, "customer_name": None, "customer": "Bob"},
    {"id": 4, "at": 32, "customer": "Di", "city": "Jena"},
    {"id": 1, "at": 15, "customer": "Ada M."},
]


def drop(target: Target, name: str, records: Sequence[dict[str, Any]]) -> None:
    land(target, "t", f"{name}.jsonl", [json.dumps({"op": "U"} | each) for each in records])


def texts(found: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as texts, without the times of a source that has none: those of arrival."""
    timeless = [{n: v for n, v in row.items() if not n.startswith("valid_")} for row in found]
    return sorted(repr(sorted(row.items())) for row in timeless)


def shown(lake: Lake, view: str) -> list[str]:
    return texts(rows(lake, view))


def published(target: Target, view: str) -> list[str]:
    found = DeltaTable(f"{target.lake}/gold/{view}").to_pyarrow_table().to_pylist()
    return texts(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="scd 1"), pytest.param(HISTORY, id="scd 2")],
)
def test_a_renamed_column_keeps_its_values_and_takes_those_of_both_names(
    lake: Lake, tmp_path: Path, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A lake that had the new YAML from the beginning, and all records at once, has the same."""
    old, new = (Table.model_validate(form | options) for form in (OLD, NEW))
    drop(lake.target, "1", BEFORE)
    run(lake, [old])
    given = Round(lake, everything=[new])

    (refused,) = silver.apply(lake, [new], "run", quiet)
    assert "column customer is renamed to customer_name" in str(refused.message)
    assert [each.effect for each in plan_tables(lake.target, [new])] == ["rename"]
    assert rebuild_renamed(given, [new]) == []
    told = capsys.readouterr().out
    assert told.count("t: column customer is renamed to customer_name") == 1
    kept = {(row["id"], row["customer_name"], row["city"]) for row in rows(lake, "t")}
    assert kept == {(1, "Ada", "Ulm"), (2, "Bob", "Kiel")}
    assert [each.effect for each in plan_tables(lake.target, [new])] == ["nothing"]

    drop(lake.target, "2", AFTER)
    run(lake, [new])
    assert rebuild_renamed(given, [new]) == []
    assert capsys.readouterr().out == ""
    at_once = target_at(tmp_path / "other")
    drop(at_once, "1", [*BEFORE, *AFTER])
    run(Lake(lake.spark, at_once), [new])
    for view in ("t", "t_history") if options else ("t",):
        assert shown(lake, view) == shown(Lake(lake.spark, at_once), view)
        if options:
            assert published(lake.target, view) == published(at_once, view) != []
    current = {(row["id"], row["customer_name"], row["city"]) for row in rows(lake, "t")}
    assert current == {(1, "Ada L.", "Ulm"), (2, None, "Kiel"), (4, "Di", "Jena")}
    assert [law.law for law in verify(lake, new, {}) if not law.holds] == []
