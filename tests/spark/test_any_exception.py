"""An exception of any kind, at any step of one table's run, is that table's failure alone."""

import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze import job as bronze
from lakehouse import names
from lakehouse.target import Target
from silver import job
from tests.spark.test_memory import drop, quiet, table

STEPS = [
    "silver.table_run.append_new",
    "silver.changelog.extend.write_decoded",
    "silver.table_run.order.place",
    "silver.table_run.write_batch",
    "silver.table_run.dead_letters.keep",
    "silver.table_run.reconciliation.outcomes",
]


def test_the_other_tables_are_done_and_each_table_is_named(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One table for each step, which fails there, and one that nothing happens to."""
    failing = {f"bad{at}": step for at, step in enumerate(STEPS)}
    tables = [table(name) for name in (*failing, "good")]
    for one in tables:
        drop(target, one.table, "1.jsonl", [{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    bronze.ingest(spark, target, tables, "run", quiet)
    with monkeypatch.context() as patch:
        for name, step in failing.items():
            patch.setattr(step, _broken(step, name))
        entries = {e.table: e for e in job.apply(spark, target, tables, "run", quiet)}
    good = entries.pop("good")
    assert (good.status, good.counts["inserted"]) == ("ok", 2)
    assert {name: entry.status for name, entry in entries.items()} == dict.fromkeys(
        failing, "failed"
    )
    for name, step in failing.items():
        assert f"ZeroDivisionError: at {step}" in str(entries[name].message)
    assert {e.status for e in job.apply(spark, target, tables, "run", quiet)} == {"ok"}
    for one in tables:
        rows = spark.table(names.name(target, "silver", one.table)).orderBy("id").collect()
        assert [(row["id"], row["v"]) for row in rows] == [(1, 1), (2, 2)]


def _broken(step: str, name: str) -> Callable[..., Any]:
    """The function of a step, which raises for the table of that name."""
    right = pkgutil.resolve_name(step)

    def broken(*given: Any, **more: Any) -> Any:
        if any(_table_of(one) == name for one in given):
            raise ZeroDivisionError(f"at {step}")
        return right(*given, **more)

    return broken


def _table_of(given: Any) -> Any:
    """The name of the table that an argument is, or belongs to."""
    for inner in ("config", "table", "table"):
        given = getattr(given, inner, given)
    return given
