"""Takes records out of bronze: the one exception to bronze's being append-only."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import feed_name
from lakehouse.names import exists, name
from lakehouse.table import Table
from lakehouse.target import Target


def tables_of(spark: SparkSession, target: Target, table: Table) -> list[str]:
    """SQL names of the table's feeds that exist."""
    found = dict.fromkeys(feed_name(table, source) for source in table.feeds)
    return [name(target, "bronze", feed) for feed in found if exists(spark, target, "bronze", feed)]


def files(spark: SparkSession, feeds: Sequence[str], arrivals: DataFrame) -> list[str]:
    """The dropped files that brought the records of these arrivals."""
    found: set[str] = set()
    for feed in feeds:
        mine = spark.table(feed).join(arrivals, "_arrival", "left_semi")
        rows = mine.where("_file IS NOT NULL").select("_file").distinct().collect()
        found |= {row["_file"] for row in rows}
    return sorted(found)


def remove(spark: SparkSession, feeds: Sequence[str], arrivals: DataFrame) -> int:
    """Deletes the records of these arrivals; returns how many.

    The statement names no value, as Delta keeps statements in its log.
    """
    removed = 0
    for feed in feeds:
        count = spark.table(feed).join(arrivals, "_arrival", "left_semi").count()
        if not count:
            continue
        removed += count
        spark.sql(
            f"MERGE INTO {feed} t USING {{arrivals}} s ON t._arrival = s._arrival"
            " WHEN MATCHED THEN DELETE",
            arrivals=arrivals,
        )
    return removed


def remove_unclaimed(spark: SparkSession, target: Target, table: Table, pattern: str) -> int:
    """Deletes what no table claims and the pattern finds; returns how many records.

    In a folder that several topics share, a line that cannot be read names no topic.
    """
    shared = {feed_name(table, source) for source in table.feeds if source.topic is not None}
    there = sorted(feed for feed in shared if exists(spark, target, "bronze", feed))
    names = [name(target, "bronze", feed) for feed in there]
    removed = 0
    for feed in names:
        rows = spark.table(feed).where(F.col("_topic").isNull() & F.col("_raw").rlike(pattern))
        removed += remove(spark, [feed], rows.select("_arrival"))
    return removed
