"""`bronze.T` of a table that shares its feed, or has several: a view of its own records."""

from collections.abc import Collection, Sequence

from pyspark.sql import SparkSession

from bronze.contract import COLUMNS, feed_name, topics
from lakehouse.config.table import Source, Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import in_short, joined
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import exists, literal, name, quote
from lakehouse.storage.views import View, publish


def published(
    spark: SparkSession, target: Target, tables: Sequence[Table], entries: Sequence[Entry]
) -> list[Entry]:
    """Publishes the views of the tables that something came for; another one stays as it is.

    Returns:
        The entries, failed where the view could not be published.
    """
    by_name = {table.table: table for table in tables}
    return [_noted(spark, target, by_name[entry.table], entry) for entry in entries]


def _noted(spark: SparkSession, target: Target, table: Table, entry: Entry) -> Entry:
    feeds = {feed_name(table, source) for source in table.feeds}
    if feeds == {table.table} or not entry.counts.get("records"):
        return entry
    try:
        there = {feed for feed in feeds if exists(spark, target, "bronze", feed)}
        publish(spark, target, "bronze", [view(target, table, there)])
    except (*SPARK_FAILURES, OSError) as failure:
        failed = in_short(failure)
        why = joined(message for message in (entry.message, failed) if message)
        collided = entry.conflict or failed.is_conflict
        told = {"status": "failed", "message": why, "conflict": collided}
        return entry.model_copy(update=told)
    return entry


def view(target: Target, table: Table, feeds: Collection[str]) -> View:
    """The table's own records out of these feeds, as they arrived."""
    parts = [
        _own_records(name(target, "bronze", feed_name(table, source)), source)
        for source in table.feeds
        if feed_name(table, source) in feeds
    ]
    columns = {column.name: column.comment for column in COLUMNS}
    comment = f"records of {table.table} as they arrived"
    return View(table.table, dict(columns), comment, (), " UNION ALL ".join(parts))


def _own_records(bronze: str, source: Source) -> str:
    columns = ", ".join(quote(column.name) for column in COLUMNS)
    own = ", ".join(literal(topic) for topic in topics(source))
    return f"SELECT {columns} FROM {bronze}" + (f" WHERE _topic IN ({own})" if own else "")
