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


@pytest.mark.parametrize("step", STEPS)
def test_the_other_tables_are_done_and_the_table_is_named(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    tables = [table("bad"), table("good")]
    for one in tables:
        drop(target, one.table, "1.jsonl", [{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    bronze.ingest(spark, target, tables, "run", quiet)
    with monkeypatch.context() as patch:
        patch.setattr(step, _broken(pkgutil.resolve_name(step)))
        entries = {e.table: e for e in job.apply(spark, target, tables, "run", quiet)}
    assert entries["good"].status == "ok"
    assert entries["good"].counts["inserted"] == 2
    assert entries["bad"].status == "failed"
    assert "ZeroDivisionError: at the step" in str(entries["bad"].message)
    assert {e.status for e in job.apply(spark, target, tables, "run", quiet)} == {"ok"}
    for one in tables:
        rows = spark.table(names.name(target, "silver", one.table)).orderBy("id").collect()
        assert [(row["id"], row["v"]) for row in rows] == [(1, 1), (2, 2)]


def _broken(right: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which raises for the table `bad`."""

    def broken(*given: Any, **more: Any) -> Any:
        if any(_is_bad(one) for one in given):
            raise ZeroDivisionError("at the step")
        return right(*given, **more)

    return broken


def _is_bad(given: Any) -> bool:
    """Whether an argument is the table `bad`, or belongs to it."""
    for inner in ("config", "table", "table"):
        given = getattr(given, inner, given)
    return isinstance(given, str) and given == "bad"
