"""Takes records out of bronze: the one exception to bronze's being append-only."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import feed_name, mended_name
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.names import exists, name


def feeds_of(spark: SparkSession, target: Target, table: Table) -> list[str]:
    """The table's feeds that exist, and the tables of their mended records."""
    found = dict.fromkeys(feed_name(table, source) for source in table.feeds)
    own = [*found, *map(mended_name, found)]
    return [feed for feed in own if exists(spark, target, "bronze", feed)]


def files(
    spark: SparkSession, target: Target, feeds: Sequence[str], records: DataFrame
) -> list[str]:
    """The dropped files that brought the records, which `_feed` and `_arrival` tell."""
    found: set[str] = set()
    for feed in feeds:
        mine = _mine(spark, target, feed, records)
        rows = mine.where("_file IS NOT NULL").select("_file").distinct().collect()
        found |= {row["_file"] for row in rows}
    return sorted(found)


def remove(spark: SparkSession, target: Target, feeds: Sequence[str], records: DataFrame) -> int:
    """Deletes the records, which `_feed` and `_arrival` tell; returns how many."""
    own = [_mine(spark, target, feed, records) for feed in feeds]
    return sum(_delete(spark, target, feed, mine) for feed, mine in zip(feeds, own, strict=True))


def remove_unclaimed(spark: SparkSession, target: Target, table: Table, pattern: str) -> int:
    """Deletes what no table claims and the pattern finds; returns how many records.

    In a folder that several topics share, a line that cannot be read names no topic.
    """
    shared = {feed_name(table, source) for source in table.feeds if source.topic is not None}
    there = sorted(feed for feed in shared if exists(spark, target, "bronze", feed))
    removed = 0
    for feed in there:
        rows = spark.table(name(target, "bronze", feed))
        found = rows.where(F.col("_topic").isNull() & F.col("_raw").rlike(pattern))
        removed += _delete(spark, target, feed, found)
    return removed


def _mine(spark: SparkSession, target: Target, feed: str, records: DataFrame) -> DataFrame:
    of = F.col("_feed").isin(feed, feed.removeprefix(mended_name("")))
    wanted = records.where(of).select("_arrival")
    return spark.table(name(target, "bronze", feed)).join(wanted, "_arrival", "left_semi")


def _delete(spark: SparkSession, target: Target, feed: str, rows: DataFrame) -> int:
    """The statement names no value, as Delta keeps statements in its log."""
    count = rows.count()
    if count:
        spark.sql(
            f"MERGE INTO {name(target, 'bronze', feed)} t USING {{rows}} s"
            " ON t._arrival = s._arrival WHEN MATCHED THEN DELETE",
            rows=rows.select("_arrival"),
        )
    return count
