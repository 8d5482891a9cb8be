"""Holes in what bronze holds of a feed: jumps of offsets, and changes missing in a transaction.

Offsets of YDB's topics follow one another, so a jump means that records were deleted before they
were read (the offsets of the last record read and of the earliest one available "will differ by
more than one"). Offsets of Kafka's topics may jump, by compaction and by transactions of their
producers: there bronze compares the next offset with the first one that the broker still has.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bronze.feeds import Feed
from lakehouse.config.target import Target
from lakehouse.run.gaps import Gap
from lakehouse.storage.names import name

# Debezium's block, which no text within a row's values can look like: quotes are escaped there.
_ID = r'"transaction": *\{"id": *"([0-9]+)'
_ORDER = r'"data_collection_order": *"?([0-9]+)'
LOOK_BACK = 20
IS_NUMBERED = "contains(_raw, '\"data_collection_order\"')"
"""Whether a record may be a change that is numbered within its transaction, in SQL."""

Orders: TypeAlias = Mapping[tuple[str | None, str], set[int]]
"""The numbers of changes by topic and transaction."""

_SIGN, _ID_BYTES, _ORDER_BYTES = b'"data_collection_order"', _ID.encode(), _ORDER.encode()


def jumps(spark: SparkSession, target: Target, feed: Feed, after: int) -> list[Gap]:
    """Offsets that were passed over since batch `after`, per topic and partition of the tables."""
    rows = _rows(spark, target, feed).where("_offset IS NOT NULL")
    known = rows.where(F.col("_batch") <= after).groupBy("_topic", "_partition")
    reached = known.agg(F.max("_offset").alias("_offset"))
    new = rows.where(F.col("_batch") > after).select("_topic", "_partition", "_offset")
    order = Window.partitionBy("_topic", "_partition").orderBy("_offset")
    followed = new.unionByName(reached).withColumn("_last", F.lag("_offset").over(order))
    found = followed.where("_offset - _last > 1")
    gaps = [
        (row["_topic"], row["_partition"], row["_last"] + 1, row["_offset"] - 1)
        for row in found.orderBy("_topic", "_partition", "_offset").collect()
    ]
    return [
        Gap(table=table, feed=feed.name, topic=topic, partition=partition, first=first, last=last)
        for topic, partition, first, last in gaps
        for table in users(feed, topic)
    ]


def numbered(topics: Iterable[str | None], records: Iterable[bytes | None]) -> Orders:
    """The numbers of the changes among some records."""
    orders: dict[tuple[str | None, str], set[int]] = {}
    for topic, raw in zip(topics, records, strict=True):
        if raw is None or _SIGN not in raw:
            continue
        transaction, order = re.search(_ID_BYTES, raw), re.search(_ORDER_BYTES, raw)
        if transaction and order:
            orders.setdefault((topic, transaction[1].decode()), set()).add(int(order[1]))
    return orders


def torn_transactions(
    spark: SparkSession, target: Target, feed: Feed, after: int, orders: Orders | None
) -> list[Gap]:
    """Changes that Debezium counted in a transaction and bronze lacks, of those since `after`.

    Each table's changes of a transaction are numbered from 1. `orders` are the numbers since then;
    None asks bronze. A transaction may have begun in an earlier batch: where some are missing, a
    few earlier batches are looked through, then all.
    """
    rows = _rows(spark, target, feed)
    if orders is None:
        torn = _torn(_numbered(rows.where(F.col("_batch") > after)))
    else:
        torn = {key: sorted(seen) for key, seen in orders.items() if len(seen) < max(seen)}
    for earliest in (after - LOOK_BACK, 0):
        if not torn:
            return []
        earlier = _numbered(rows.where(F.col("_batch") > earliest))
        torn = _torn(earlier.where(_is_one_of(torn)))
    return [gap for (topic, transaction), seen in torn.items()
            for gap in _holes(feed, topic, transaction, seen)]  # fmt: skip


def filled(spark: SparkSession, target: Target, feed: Feed, gap: Gap) -> bool:
    """Whether all that was missing has turned up."""
    rows = _rows(spark, target, feed).where(F.col("_topic").eqNullSafe(F.lit(gap.topic)))
    if gap.kind == "transaction":
        same = F.col("_transaction").eqNullSafe(F.lit(gap.transaction))
        orders = _numbered(rows).where(same)
        found = orders.where(F.col("_order").between(gap.first, gap.last)).select("_order")
    else:
        own = rows.where(F.col("_partition").eqNullSafe(F.lit(gap.partition)))
        found = own.where(F.col("_offset").between(gap.first, gap.last)).select("_offset")
    return found.distinct().count() == gap.last - gap.first + 1


def _rows(spark: SparkSession, target: Target, feed: Feed) -> DataFrame:
    return spark.table(name(target, "bronze", feed.name))


def _numbered(rows: DataFrame) -> DataFrame:
    """Changes that are numbered within a transaction: `_topic`, `_transaction`, `_order`."""
    return (
        rows.where(IS_NUMBERED)
        .select(
            "_topic",
            F.regexp_extract("_raw", _ID, 1).alias("_transaction"),
            F.regexp_extract("_raw", _ORDER, 1).try_cast("bigint").alias("_order"),
        )
        .where("_transaction <> '' AND _order IS NOT NULL")
    )


def _torn(orders: DataFrame) -> dict[tuple[str | None, str], list[int]]:
    """The numbers seen of every table's part of a transaction that lacks some."""
    parts = orders.groupBy("_topic", "_transaction").agg(
        F.count_distinct("_order").alias("n"),
        F.max("_order").alias("last"),
        F.collect_set("_order").alias("seen"),
    )
    found = parts.where("n < last").collect()
    return {(row["_topic"], row["_transaction"]): sorted(row["seen"]) for row in found}


def _is_one_of(torn: Mapping[tuple[str | None, str], object]) -> Column:
    return F.col("_transaction").isin(sorted({transaction for _, transaction in torn}))


def _holes(feed: Feed, topic: str | None, transaction: str, seen: Sequence[int]) -> Iterator[Gap]:
    for before, after in zip([0, *seen], seen, strict=False):
        if after - before > 1:
            for table in users(feed, topic):
                yield Gap(
                    table=table, feed=feed.name, topic=topic, kind="transaction",
                    transaction=transaction, first=before + 1, last=after - 1,
                )  # fmt: skip


def users(feed: Feed, topic: str | None) -> list[str]:
    """The tables that take a topic's records."""
    return [table for table, own in feed.tables.items() if not own or topic in own]
