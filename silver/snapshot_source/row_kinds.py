"""What the newest batches of a snapshot table's change log hold, by kind: one look at them for all.

Counted by columns of a few values each, which takes no sorting.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from silver.changelog import log
from silver.snapshot_source.snapshot_dates import Days


class Kind(NamedTuple):
    """Rows of one batch that are alike: how many, and the newest ingest batch of theirs."""

    batch: int
    letter: str | None
    operation: str | None
    reason: str | None
    sequence: str | None
    records: int
    feed_batch: int


def kinds(spark: SparkSession, target: Target, table: Table, applied: int) -> list[Kind]:
    """The kinds of rows above a batch, in order of their batches."""
    if not names.exists(spark, target, "silver", f"{table.table}_changes"):
        return []
    rows = log.read(spark, target, table).where(F.col("_batch") > applied)
    alike = rows.groupBy("_batch", "_letter", "_operation", "_reason", "_sequence")
    counted = alike.agg(F.count(F.lit(1)).alias("records"), F.max("_feed_batch").alias("newest"))
    return sorted((Kind(*row) for row in counted.collect()), key=lambda kind: kind.batch)


def counts(found: Sequence[Kind], days: Days, applied: int) -> dict[str, int]:
    """The counts of a run that applied these kinds, above a batch."""
    counts: dict[str, int] = {"records": 0}
    for one in found:
        kind = f"dead_letter:{one.reason}" if one.reason else str(one.letter or "duplicate")
        counts[kind] = counts.get(kind, 0) + one.records
        counts["records"] += 0 if one.letter == "D" else one.records
    new = [day.not_supplied or 0 for day in days.values() if (day.batch or 0) > applied]
    return counts | ({"X": sum(new)} if sum(new) else {})
