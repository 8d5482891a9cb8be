"""Tells the next tasks of a Databricks job whether silver or gold has anything to do.

A job's condition reads the task value `unapplied`: where it is "no", silver and gold are not
started. In doubt the value is "yes", which costs one run that finds nothing to do.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.contract import feed_name
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage.newest import newest_batches

TASK_VALUE = "unapplied"


class LastRun(NamedTuple):
    """A table's newest ledger entry of one layer.

    `done` is the newest batch of each feed, `ended_at` is in microseconds since 1970.
    """

    failed: bool
    pending: int
    done: Mapping[str, int]
    ended_at: int


NEVER = LastRun(False, 0, {}, 0)


def set_unapplied(spark: SparkSession, unapplied: bool) -> None:
    """Set the task value; where there is no Databricks job, nothing is set.

    Databricks documents task values for notebooks; a wheel task sets them by the same call.
    """
    try:
        utilities = importlib.import_module("pyspark.dbutils").DBUtils(spark)
        task_values = utilities.jobs.taskValues
    except (ImportError, AttributeError):
        return
    task_values.set(key=TASK_VALUE, value="yes" if unapplied else "no")


def is_unapplied(
    spark: SparkSession, target: Target, tables: Sequence[Table], entries: Sequence[Entry]
) -> bool:
    """Whether silver or gold has anything to do for the tables.

    Args:
        spark: the session.
        target: where the lakehouse lies.
        tables: the tables of the run.
        entries: what bronze has just done.

    Returns:
        True when records came or a table of bronze failed; when a table's last run of silver
        failed, left changes pending, or ended before bronze's newest batch; and when gold has
        failed since.
    """
    if any(entry.status == "failed" or entry.counts.get("records") for entry in entries):
        return True
    feeds = {feed_name(table, source) for table in tables for source in table.feeds}
    held = newest_batches(spark, target, "bronze", feeds)
    last = _last_runs(spark, target)
    return any(_is_behind(table, last, held) for table in tables)


def _is_behind(
    table: Table, last: Mapping[tuple[str, str], LastRun], held: Mapping[str, int | None]
) -> bool:
    silver, gold = last.get(("silver", table.table), NEVER), last.get(("gold", table.table), NEVER)
    if silver.failed or silver.pending > 0:
        return True
    if gold.failed and gold.ended_at > silver.ended_at:
        return True
    newest = {feed: held.get(feed, 0) for feed in (feed_name(table, s) for s in table.feeds)}
    return any(batch is None or batch > silver.done.get(feed, 0) for feed, batch in newest.items())


def _last_runs(spark: SparkSession, target: Target) -> dict[tuple[str, str], LastRun]:
    """What the ledger says of the last run of silver and of gold for each table."""
    entries = ledger.read(spark, target).where("layer IN ('silver', 'gold')")
    rows = entries.groupBy("layer", "table").agg(
        F.expr("max_by(status, ended_at) = 'failed'").alias("failed"),
        F.expr("max_by(coalesce(counts['pending'], 0L), ended_at)").alias("pending"),
        F.expr("max_by(positions, ended_at)").alias("done"),
        F.expr("max(unix_micros(ended_at))").alias("ended_at"),
    )
    return {
        (row["layer"], row["table"]): LastRun(
            row["failed"], row["pending"], row["done"] or {}, row["ended_at"]
        )
        for row in rows.collect()
    }
