"""Deletes records from bronze: the one exception to append-only."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import feed_name, mended_name
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.names import table_exists, table_name


def feeds_of(spark: SparkSession, target: Target, table: Table) -> list[str]:
    """The table's feeds that exist, and the tables of their mended records."""
    feeds = dict.fromkeys(feed_name(table, source) for source in table.feeds)
    tables = [*feeds, *map(mended_name, feeds)]
    return [feed for feed in tables if table_exists(spark, target, "bronze", feed)]


def find_dropped_files(
    spark: SparkSession, target: Target, feeds: Sequence[str], records: DataFrame
) -> list[str]:
    """The dropped files of the records, which `_feed` and `_arrival` identify."""
    paths: set[str] = set()
    for feed in feeds:
        mine = _find_records(spark, target, feed, records)
        rows = mine.where("_file IS NOT NULL").select("_file").distinct().collect()
        paths |= {row["_file"] for row in rows}
    return sorted(paths)


def remove_records(
    spark: SparkSession, target: Target, feeds: Sequence[str], records: DataFrame
) -> int:
    """Deletes the records, which `_feed` and `_arrival` identify; returns how many."""
    parts = [(feed, _find_records(spark, target, feed, records)) for feed in feeds]
    return sum(_delete_rows(spark, target, feed, part) for feed, part in parts)


def remove_unclaimed(spark: SparkSession, target: Target, table: Table, pattern: str) -> int:
    """Deletes the records without a topic that match the pattern; returns how many.

    In a folder that several topics share, a line that cannot be read has no topic.
    """
    shared = {feed_name(table, source) for source in table.feeds if source.topic is not None}
    there = sorted(feed for feed in shared if table_exists(spark, target, "bronze", feed))
    removed = 0
    for feed in there:
        rows = spark.table(table_name(target, "bronze", feed))
        unclaimed = rows.where(F.col("_topic").isNull() & F.col("_raw").rlike(pattern))
        removed += _delete_rows(spark, target, feed, unclaimed)
    return removed


def _find_records(spark: SparkSession, target: Target, feed: str, records: DataFrame) -> DataFrame:
    of = F.col("_feed").isin(feed, feed.removeprefix(mended_name("")))
    wanted = records.where(of).select("_arrival")
    return spark.table(table_name(target, "bronze", feed)).join(wanted, "_arrival", "left_semi")


def _delete_rows(spark: SparkSession, target: Target, feed: str, rows: DataFrame) -> int:
    """Deletes rows by `_arrival`: Delta logs the statement, which must not contain values."""
    count = rows.count()
    if count:
        spark.sql(
            f"MERGE INTO {table_name(target, 'bronze', feed)} t USING {{rows}} s"
            " ON t._arrival = s._arrival WHEN MATCHED THEN DELETE",
            rows=rows.select("_arrival"),
        )
    return count
