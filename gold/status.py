"""How every table does: rows, lag, what waits, what was refused."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import ledger, names
from lakehouse.table import Table
from lakehouse.target import Target


def status(spark: SparkSession, target: Target, tables: list[Table]) -> list[dict[str, Any]]:
    """One record per table.

    `rows` live keys; `watermark` newest commit time applied, `lag_seconds` its age; `applied_batch`
    newest bronze batch in silver; `pending_changes` decoded but not applied; `dead_letters`
    unresolved ones by reason; `counts` every class of record over all runs; `apply_p95_seconds` of
    all runs.
    """
    runs = _runs(spark, target)
    return [_of(spark, target, table, runs.get(table.table, {})) for table in tables]


def _runs(spark: SparkSession, target: Target) -> dict[str, dict[str, Any]]:
    silver = ledger.read(spark, target).where("layer = 'silver'")
    totals = silver.groupBy("table").agg(
        F.max(F.when(F.col("status") == "ok", F.col("batch"))).alias("applied_batch"),
        F.max("ended_at").alias("last_run"),
        F.percentile("duration_ms", F.lit(0.95)).alias("p95"),
        F.max_by("message", "ended_at").alias("last_failure"),
    )
    found = {row["table"]: row.asDict() for row in totals.collect()}
    classes = silver.select("table", F.explode("counts")).groupBy("table", "key")
    for row in classes.agg(F.sum("value").alias("n")).collect():
        found[row["table"]].setdefault("counts", {})[row["key"]] = row["n"]
    return found


def _of(spark: SparkSession, target: Target, table: Table, run: dict[str, Any]) -> dict[str, Any]:
    return {
        "table": table.table,
        **_current(spark, target, table),
        "applied_batch": run.get("applied_batch"),
        "last_run": run.get("last_run"),
        "last_failure": run.get("last_failure"),
        "pending_changes": _pending(spark, target, table, run.get("applied_batch") or 0),
        "dead_letters": _dead_letters(spark, target, table),
        "apply_p95_seconds": None if run.get("p95") is None else run["p95"] / 1000,
        "counts": run.get("counts", {}),
    }


def _current(spark: SparkSession, target: Target, table: Table) -> dict[str, Any]:
    history = table.stored_as_scd_type == 2
    rows = _table(spark, target, f"{table.table}_history" if history else table.table)
    if rows is None:
        return {"rows": 0, "watermark": None, "lag_seconds": None}
    live = F.col("_is_current") if history else ~F.col("_deleted")
    if not table.keys:
        live = ~F.col("_removes")
    lag = F.unix_micros(F.current_timestamp()) - F.unix_micros(F.max("_source_time"))
    row = rows.agg(
        F.count_if(live).alias("rows"),
        F.max("_source_time").alias("watermark"),
        (lag / 1_000_000).alias("lag_seconds"),
    ).first()
    return row.asDict() if row else {}


def _pending(spark: SparkSession, target: Target, table: Table, applied: int) -> int:
    log = _table(spark, target, f"{table.table}_changes")
    return 0 if log is None else log.where(F.col("_batch") > applied).count()


def _dead_letters(spark: SparkSession, target: Target, table: Table) -> dict[str, int]:
    letters = _table(spark, target, f"{table.table}_dead_letters")
    if letters is None:
        return {}
    found = letters.where("resolved_at IS NULL").groupBy("reason").count().collect()
    return {row["reason"]: row["count"] for row in found}


def _table(spark: SparkSession, target: Target, name: str) -> DataFrame | None:
    if not names.exists(spark, target, "silver", name):
        return None
    return spark.table(names.name(target, "silver", name))
