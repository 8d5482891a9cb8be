"""The change log `silver.T_changes`: every record of bronze once, decoded, as the source ordered it.

One row per bronze record, dead letters and records without a change included, so that the classes of a
run add up to its records. It is written in the pass that parses, and read by everything after that.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout
from silver.compact import digest
from silver.contract import LOG_COLUMNS, NONE, TRUNCATE


class Summary(NamedTuple):
    """What a batch of the log holds."""

    records: int
    changes: int
    truncates: int
    without_change: int
    dead_letters: dict[str, int]
    snapshot_rows: int
    heirs: int
    partial: list[str]


def append(spark: SparkSession, target: Target, table: Table, changes: DataFrame) -> None:
    """Adds decoded and gated changes to the log; new columns and wider types grow it."""
    fields = layout.business(changes.schema)
    name = layout.ensure(spark, target, f"{table.table}_changes", fields, LOG_COLUMNS)
    columns = [f.name for f in fields if f.name not in table.keys]
    changes.withColumn("_digest", digest(columns)).writeTo(name).append()


def read(spark: SparkSession, target: Target, table: Table) -> DataFrame | None:
    """The whole log, or None before the first batch."""
    log = f"{table.table}_changes"
    if not names.exists(spark, target, "silver", log):
        return None
    return spark.table(names.name(target, "silver", log))


def newest_batch(log: DataFrame | None) -> int:
    """The newest batch in the log, 0 when it is empty; answered from file statistics."""
    if log is None:
        return 0
    row = log.agg(F.max("_batch").alias("batch")).first()
    return int(row["batch"] or 0) if row else 0


def summarize(rows: DataFrame) -> Summary:
    """Counts a part of the log in one small job over the layer's columns."""
    by = rows.groupBy("_operation", "_reason").agg(
        F.count(F.lit(1)).alias("records"),
        F.count("_snapshot").alias("snapshot_rows"),
        F.count_if(F.col("_old_key").isNotNull() & F.col("_absent").isNotNull()).alias("heirs"),
        F.array_distinct(F.flatten(F.collect_set("_absent"))).alias("absent"),
    )
    return _summary([row.asDict() for row in by.collect()])


def _summary(groups: list[dict[str, object]]) -> Summary:
    def total(field: str, operations: tuple[str, ...] | None = None) -> int:
        kept = [g for g in groups if g["_reason"] is None]
        return sum(int(str(g[field])) for g in kept if operations is None or g["_operation"] in operations)

    dead = {str(g["_reason"]): int(str(g["records"])) for g in _rejected(groups)}
    absent = {str(c) for g in groups if isinstance(g["absent"], list) for c in g["absent"]}
    records = sum(int(str(g["records"])) for g in groups)
    return Summary(
        records=records,
        changes=total("records") - total("records", (NONE, TRUNCATE)),
        truncates=total("records", (TRUNCATE,)),
        without_change=total("records", (NONE,)),
        dead_letters=dead,
        snapshot_rows=total("snapshot_rows"),
        heirs=total("heirs"),
        partial=sorted(absent),
    )


def _rejected(groups: list[dict[str, object]]) -> list[dict[str, object]]:
    merged: dict[str, dict[str, object]] = {}
    for group in groups:
        if group["_reason"] is None:
            continue
        reason = str(group["_reason"])
        before = int(str(merged[reason]["records"])) if reason in merged else 0
        merged[reason] = group | {"records": before + int(str(group["records"]))}
    return list(merged.values())
