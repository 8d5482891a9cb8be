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


def newest_batch(spark: SparkSession, target: Target, table: Table) -> int:
    """The newest batch in any of the table's feeds, 0 before the first; from file statistics."""
    found = [0]
    for feed in {bronze.feed_name(table, source) for source in table.feeds}:
        if names.exists(spark, target, "bronze", feed):
            rows = spark.table(names.name(target, "bronze", feed))
            row = rows.agg(F.max("_batch").alias("batch")).first()
            found.append(int(row["batch"] or 0) if row else 0)
    return max(found)


def _feed(spark: SparkSession, target: Target, table: Table, source: Source) -> DataFrame | None:
    feed = bronze.feed_name(table, source)
    if not names.exists(spark, target, "bronze", feed):
        return None
    rows = spark.table(names.name(target, "bronze", feed))
    return rows.where(F.col("_topic") == source.topic) if source.topic else rows
