import sys
from datetime import datetime, timedelta, timezone
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.task_value import is_unapplied, set_unapplied
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from tests import lake

ROWS = Table.model_validate(
    {"table": "rows", "source": {"format": "rows", "path": "rows"}, "keys": ["id"],
     "sequence_by": "at", "columns": {"id": "int", "at": "int"}}
)  # fmt: skip
LINES = ['{"id": 1, "at": 1}']
BEGIN = datetime(2026, 1, 2, tzinfo=timezone.utc)


def entry(layer: str, minute: int, **more: object) -> Entry:
    at = BEGIN + timedelta(minutes=minute)
    given = {"run_id": "r", "layer": layer, "table": "rows", "started_at": at, "ended_at": at}
    return Entry.model_validate(given | more)


def test_silver_has_work_from_a_batch_in_bronze_until_it_has_applied_the_batch(
    spark: SparkSession, target: Target
) -> None:
    idle = [entry("bronze", 0)]
    assert not is_unapplied(spark, target, [ROWS], idle)
    lake.arrive(spark, target, ROWS, LINES)
    assert is_unapplied(spark, target, [ROWS], idle)
    lake.settle(spark, target, [ROWS])
    assert not is_unapplied(spark, target, [ROWS], idle)


ENTRIES = [
    ([entry("silver", 1)], False),
    ([entry("silver", 1, status="failed"), entry("silver", 2)], False),
    ([entry("silver", 1), entry("silver", 2, status="failed")], True),
    ([entry("silver", 1, counts={"records": 3, "pending": 3})], True),
    ([entry("silver", 1, counts={"pending": 3}), entry("silver", 2)], False),
    ([entry("gold", 1, status="failed"), entry("silver", 2)], False),
    ([entry("silver", 1), entry("gold", 2, status="failed")], True),
]


def test_failures_and_pending_changes_are_work_until_a_later_run_has_dealt_with_them(
    spark: SparkSession, target: Target
) -> None:
    """A table for each case, in one ledger."""
    own = [
        each.model_copy(update={"table": f"rows{at}"})
        for at, (entries, _) in enumerate(ENTRIES)
        for each in entries
    ]
    ledger.append(spark, target, own)
    found = []
    for at in range(len(ENTRIES)):
        one = ROWS.model_copy(update={"table": f"rows{at}"})
        found.append(is_unapplied(spark, target, [one], [entry("bronze", 9, table=one.table)]))
    assert found == [unapplied for _, unapplied in ENTRIES]


@pytest.mark.parametrize("more", [{"counts": {"records": 1}}, {"status": "failed"}])
def test_new_records_and_failures_of_bronze_are_work(
    spark: SparkSession, target: Target, more: dict[str, Any]
) -> None:
    assert is_unapplied(spark, target, [ROWS], [entry("bronze", 0, **more)])


@pytest.mark.parametrize(("unapplied", "value"), [(True, "yes"), (False, "no")])
def test_the_value_is_set_where_databricks_has_task_values(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, unapplied: bool, value: str
) -> None:
    values: dict[str, str] = {}
    task_values = SimpleNamespace(set=lambda key, value: values.update({key: value}))
    utilities = SimpleNamespace(jobs=SimpleNamespace(taskValues=task_values))
    module = ModuleType("pyspark.dbutils")
    vars(module)["DBUtils"] = lambda spark: utilities
    monkeypatch.setitem(sys.modules, "pyspark.dbutils", module)
    set_unapplied(spark, unapplied)
    assert values == {"unapplied": value}


def test_nothing_is_set_where_there_are_none(spark: SparkSession) -> None:
    set_unapplied(spark, True)
