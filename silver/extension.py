"""A table's change log brought up to bronze: what is new there is decoded, gated and added."""

from collections.abc import Mapping, MutableMapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.table import Table
from lakehouse.target import Target
from silver import lateness, log, reading
from silver.batch import Seen
from silver.decoded_batch import RawBatch, write_decoded, write_looked_through
from silver.summary import Summary, Watched

Shown = MutableMapping[str, Any]
"""The columns that a run has decoded by, of each table whose log it extended."""


def extend(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
    applied: int,
    shown: Shown | None = None,
) -> tuple[Seen, Summary | None]:
    """Adds what bronze has gained up to the batches `newest` to the log, as one batch.

    `applied` is the newest batch of the log that is applied. `shown` gets the columns of the batch.
    Returns what the log holds then, and the summary of the batch where its write told it.

    Raises:
        SchemaChangeRefused: the batch changes the source's columns in a way that the table fails.
    """
    raw = reading.unread(spark, target, table, seen.positions, newest)
    batch, number = RawBatch(spark, target, table, run_id, seen, raw), seen.batch + 1

    def write(changes: DataFrame) -> Watched:
        return log.write(spark, target, table, changes, number, seen.whole.epochs)

    def rewrite(changes: DataFrame) -> Watched:
        return log.rewrite(spark, target, table, changes, number, seen.whole.epochs)

    columns, written = write_decoded(batch, write, rewrite)
    if shown is not None:
        shown[table.table] = columns
    summary = written.summary()
    if lateness.reject(spark, target, table, seen.batch, seen.horizon, applied):
        summary = None
    after = seen._replace(batch=number, positions=dict(seen.positions) | dict(newest))
    return after, summary


def finish(
    spark: SparkSession, target: Target, table: Table, run_id: str, seen: Seen, newest: int
) -> None:
    """Writes the newest batch of the log anew where a killed run left it without some columns.

    Raises:
        SchemaChangeRefused: as `extend`.
    """
    rows = log.read(spark, target, table).where(F.col("_batch") == newest)
    if rows.where("_unlike").isEmpty():
        return
    spans = rows.groupBy("_feed").agg(F.min("_feed_batch"), F.max("_feed_batch")).collect()
    parts = [reading.between(spark, target, table, *span) for span in spans]
    batch = RawBatch(spark, target, table, run_id, seen, reduce(DataFrame.unionByName, parts))

    def rewrite(changes: DataFrame) -> Watched:
        return log.rewrite(spark, target, table, changes, newest, seen.whole.epochs)

    write_looked_through(batch, batch.known(first=newest == 1), rewrite)
