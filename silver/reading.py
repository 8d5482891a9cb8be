"""The bronze rows of a table that silver has not decoded yet."""

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import contract as bronze
from lakehouse import names
from lakehouse.table import Source, Table
from lakehouse.target import Target


def unread(spark: SparkSession, target: Target, table: Table, after: int) -> DataFrame | None:
    """Rows of all the table's feeds with a batch above `after`; None before bronze has any."""
    feeds = [_feed(spark, target, table, source) for source in table.feeds]
    known = [feed for feed in feeds if feed is not None]
    if not known:
        return None
    return reduce(DataFrame.unionByName, known).where(F.col("_batch") > after)


def newest_batches(spark: SparkSession, target: Target, tables: list[Table]) -> dict[str, int]:
    """The newest batch of every feed of the tables, 0 before its first; from file statistics."""
    feeds = {bronze.feed_name(table, source) for table in tables for source in table.feeds}
    return {feed: _newest(spark, target, feed) for feed in sorted(feeds)}


def newest_of(table: Table, newest: dict[str, int]) -> int:
    """The newest batch in any of the table's feeds."""
    return max(newest[bronze.feed_name(table, source)] for source in table.feeds)


def _newest(spark: SparkSession, target: Target, feed: str) -> int:
    if not names.exists(spark, target, "bronze", feed):
        return 0
    row = (
        spark.table(names.name(target, "bronze", feed)).agg(F.max("_batch").alias("batch")).first()
    )
    return int(row["batch"] or 0) if row else 0


def _feed(spark: SparkSession, target: Target, table: Table, source: Source) -> DataFrame | None:
    feed = bronze.feed_name(table, source)
    if not names.exists(spark, target, "bronze", feed):
        return None
    rows = spark.table(names.name(target, "bronze", feed))
    return rows.where(F.col("_topic") == source.topic) if source.topic else rows
