"""The bronze table of a feed: made with its comments, appended to, never changed."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import COLUMNS
from bronze.counted import News, Records, counting
from bronze.feeds import Feed
from lakehouse.config.target import Target
from lakehouse.storage import writing
from lakehouse.storage.names import literal, name
from lakehouse.storage.newest import newest_batch

PROPERTIES = {"delta.dataSkippingStatsColumns": "_batch,_topic,_partition,_offset,_arrival"}


class Commit(NamedTuple):
    """What makes an append count once: Delta skips a version it has seen of an application.

    `again` says that it may have seen this one.
    """

    application: str
    version: int
    again: bool


def prepare(spark: SparkSession, target: Target, feed: Feed) -> int:
    """Make the feed's table unless it is there; the number of its newest batch, 0 without any."""
    newest = newest_batch(spark, target, "bronze", feed.name)
    if newest is not None:
        return newest
    writing.create(spark, target, "bronze", feed.name, create_statement(target, feed))
    return 0


def create_statement(target: Target, feed: Feed) -> str:
    """CREATE TABLE with a comment on the table and on each column, as the contract has them."""
    columns = ", ".join(
        f"{column.name} {column.type} COMMENT {literal(column.comment)}" for column in COLUMNS
    )
    comment = f"records of {', '.join(feed.tables)} as they arrived, append-only"
    return (
        f"CREATE TABLE IF NOT EXISTS {name(target, 'bronze', feed.name)} ({columns}) "
        f"USING delta COMMENT {literal(comment)} TBLPROPERTIES ({_listed(PROPERTIES)})"
    )


def append(
    spark: SparkSession, target: Target, feed: Feed, rows: DataFrame, commit: Commit | None
) -> Records | None:
    """Append rows of the contract's columns in one commit; a commit seen before does nothing.

    Rows of one topic lie together within a file, which lets a reader of that topic skip the others.

    Returns:
        How many of each topic were written, where the write could tell.
    """
    ordered = rows.select(*[column.name for column in COLUMNS])
    if any(feed.tables.values()):
        ordered = ordered.sortWithinPartitions("_topic", "_arrival")
    options = {"compression": "zstd"}
    if commit is not None:
        options |= {"txnAppId": commit.application, "txnVersion": str(commit.version)}
    if target.kind != "local" or (commit is not None and commit.again):
        writing.append(spark, target, "bronze", feed.name, ordered, options)
        return None
    going = counting(ordered, feed)
    writing.append(spark, target, "bronze", feed.name, going.rows, options)
    return going.records()


def news(spark: SparkSession, target: Target, feed: Feed, highest: int) -> News:
    """What came after batch `highest`, by asking bronze."""
    rows = spark.table(name(target, "bronze", feed.name)).where(F.col("_batch") > highest)
    counted = rows.groupBy("_topic").agg(F.max("_batch"), F.count("*")).collect()
    batch = max([highest, *(row[1] for row in counted)])
    return News(batch, {row[0]: row[2] for row in counted})


def properties(spark: SparkSession, target: Target, feed: Feed) -> dict[str, str]:
    """The table's properties."""
    shown = spark.sql(f"SHOW TBLPROPERTIES {name(target, 'bronze', feed.name)}").collect()
    return {row[0]: row[1] for row in shown}


def set_properties(
    spark: SparkSession, target: Target, feed: Feed, changed: Mapping[str, str]
) -> None:
    """Set some of the table's properties."""
    table = name(target, "bronze", feed.name)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({_listed(changed)})")


def hexadecimal(number: Column, digits: int) -> Column:
    """A number that is not negative as so many upper-case hex digits."""
    return F.lpad(F.hex(number), digits, "0")


def _listed(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in pairs.items())
