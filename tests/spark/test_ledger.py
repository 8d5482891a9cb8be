from datetime import datetime, timezone

from pyspark.sql import SparkSession

from lakehouse import ledger
from lakehouse.target import Target

BEGIN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


def entry(table: str, **more: object) -> ledger.Entry:
    given = {"run_id": "r1", "layer": "silver", "table": table, "batch": 3, **more}
    return ledger.Entry.model_validate(given | {"started_at": BEGIN, "ended_at": BEGIN})


def test_the_ledger_is_empty_before_the_first_run(spark: SparkSession, target: Target) -> None:
    assert ledger.read(spark, target).count() == 0


def test_entries_are_read_back_as_written(spark: SparkSession, target: Target) -> None:
    ledger.append(spark, target, [entry("a", counts={"inserted": 2})])
    ledger.append(spark, target, [entry("b", batch=None, status="failed", message="why")])
    shown = ledger.read(spark, target).selectExpr(
        "table", "batch", "status", "counts['inserted']", "message", "string(started_at)"
    )
    at = "2026-01-02 03:04:05.678901"
    assert sorted(tuple(row) for row in shown.collect()) == [
        ("a", 3, "ok", 2, None, at),
        ("b", None, "failed", None, "why", at),
    ]


def test_many_entries_are_one_commit(spark: SparkSession, target: Target) -> None:
    ledger.append(spark, target, [entry("a"), entry("b")])
    before = ledger.read(spark, target).count()
    log = spark.sql(f"DESCRIBE HISTORY delta.`{target.lake}/silver/_runs`")
    assert (before, log.where("operation <> 'CREATE TABLE'").count()) == (2, 1)
