"""The change log `silver.T_changes`: every record of bronze once, decoded, in source order.

One row per bronze record, dead letters and records without a change included, so that the classes
of a run add up to its records. It is written in the pass that parses, and read by everything after
that.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout
from silver.compact import digest
from silver.contract import DELETE, LOG_COLUMNS, NONE, TRUNCATE, UPSERT


class Summary(NamedTuple):
    """What a part of the log holds.

    `incomplete` counts changes that do not carry every column, of which `partial` names the
    columns; `heirs` counts those among them that moved from another key.
    """

    records: int
    changes: int
    truncates: int
    without_change: int
    rejected: int
    snapshot_rows: int
    incomplete: int
    heirs: int
    partial: list[str]


def append(spark: SparkSession, target: Target, table: Table, changes: DataFrame) -> None:
    """Adds decoded and gated changes to the log; new columns and wider types grow it."""
    fields = layout.business(changes.schema)
    name, _ = layout.ensure(spark, target, f"{table.table}_changes", fields, LOG_COLUMNS)
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
    """Counts a part of the log in one small job.

    A second one names the columns of partial changes.
    """
    sound, absent = F.col("_reason").isNull(), F.col("_absent").isNotNull()
    counted = {
        "records": F.lit(True),
        "changes": sound & F.col("_operation").isin(UPSERT, DELETE),
        "truncates": sound & (F.col("_operation") == TRUNCATE),
        "without_change": sound & (F.col("_operation") == NONE),
        "rejected": ~sound,
        "snapshot_rows": sound & F.col("_snapshot").isNotNull(),
        "incomplete": sound & absent,
        "heirs": sound & absent & F.col("_old_key").isNotNull(),
    }
    row = rows.agg(
        *[F.count_if(condition).alias(name) for name, condition in counted.items()]
    ).first()
    counts = row.asDict() if row else dict.fromkeys(counted, 0)
    return Summary(**counts, partial=_absent_columns(rows) if counts["incomplete"] else [])


def _absent_columns(rows: DataFrame) -> list[str]:
    absent = rows.where("_reason IS NULL").select(F.explode("_absent").alias("column")).distinct()
    return sorted(row["column"] for row in absent.collect())


def reasons(rows: DataFrame) -> dict[str, int]:
    """The rejected rows of a part of the log, counted by reason."""
    found = rows.where("_reason IS NOT NULL").groupBy("_reason").count().collect()
    return {row["_reason"]: row["count"] for row in found}
