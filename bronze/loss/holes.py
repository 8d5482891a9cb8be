"""Holes in what bronze holds of a feed: jumps of offsets, and changes missing in a transaction.

Offsets of YDB's topics follow one another, so a jump means that records were deleted before they
were read (the offsets of the last record read and of the earliest one available "will differ by
more than one"). Offsets of Kafka's topics may jump, by compaction and by transactions of their
producers: there bronze compares the next offset with the first one that the broker still has.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bronze.feeds import Feed
from lakehouse.config.target import Target
from lakehouse.run.gaps import Gap
from lakehouse.storage.names import name

LOOK_BACK = 20
IS_NUMBERED = "contains(_raw, '\"data_collection_order\"')"
"""Whether a record may be a change that is numbered within its transaction, in SQL."""

Orders: TypeAlias = Mapping[tuple[str | None, str], set[int]]
"""The numbers of changes by topic and transaction."""

_SIGN = b'"data_collection_order"'
_TX_ID_AND_LSN = r"^([0-9]+):[0-9]+$"
"""PostgreSQL's id, whose end differs within a transaction."""
_BLOCK = "transaction: struct<id: string, data_collection_order: string>"
_PAYLOAD = f"{_BLOCK}, payload: struct<{_BLOCK}>"
_RECORD = f"struct<{_PAYLOAD}, value: struct<{_PAYLOAD}>>"
_PLACES = ("transaction", "payload.transaction", "value.transaction", "value.payload.transaction")


class _Layer(msgspec.Struct):
    """What Debezium's block may lie in: the event, its envelope, or a record with the event."""

    transaction: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()


class _Block(msgspec.Struct):
    id: str | int | None = None
    data_collection_order: int | None = None


_LAYERS, _BLOCKS = msgspec.json.Decoder(_Layer), msgspec.json.Decoder(_Block, strict=False)


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
        try:
            block = _block(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if block is not None and block.id and block.data_collection_order is not None:
            transaction = re.sub(_TX_ID_AND_LSN, r"\1", str(block.id))
            orders.setdefault((topic, transaction), set()).add(block.data_collection_order)
    return orders


def _block(raw: bytes | msgspec.Raw) -> _Block | None:
    """Debezium's block about the transaction in a record."""
    layer = _LAYERS.decode(raw)
    if bytes(layer.transaction).startswith(b"{"):
        return _BLOCKS.decode(layer.transaction)
    inner = [each for each in (layer.payload, layer.value) if bytes(each).startswith(b"{")]
    return next((found for each in inner if (found := _block(each)) is not None), None)


def torn_transactions(
    spark: SparkSession, target: Target, feed: Feed, looked: range, orders: Orders | None
) -> tuple[list[Gap], Orders]:
    """Changes that Debezium counted in a transaction and bronze lacks, of those in some batches.

    Each table's changes of a transaction are numbered from 1. `orders` are the numbers in these
    batches; None asks bronze. A transaction may have begun in an earlier batch: where some are
    missing, a few earlier batches are looked through, then all. What is missing of one that the
    last batch brought may come with the next: such a transaction is returned to be looked at again.
    """
    rows = _rows(spark, target, feed)
    torn: Mapping[tuple[str | None, str], object]
    if orders is None:
        torn = _torn(_numbered(rows.where(F.col("_batch") >= looked.start)))
    else:
        torn = {key: seen for key, seen in orders.items() if len(seen) < max(seen)}
    found: dict[tuple[str | None, str], tuple[int, list[int]]] = {}
    for earliest in (looked.start - LOOK_BACK, 0):
        if not torn:
            return [], {}
        earlier = _numbered(rows.where(F.col("_batch") >= earliest))
        torn = found = _torn(earlier.where(_is_one_of(torn)))
    waiting = {key: set(seen) for key, (batch, seen) in found.items() if batch == looked[-1]}
    gaps = [gap for (topic, transaction), (_, seen) in found.items()
            if (topic, transaction) not in waiting
            for gap in _holes(feed, topic, transaction, seen)]  # fmt: skip
    return gaps, waiting


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
    """Changes numbered within a transaction: `_batch`, `_topic`, `_transaction`, `_order`."""
    read = rows.where(IS_NUMBERED).select(
        "_batch", "_topic", F.from_json(F.col("_raw").cast("string"), _RECORD).alias("_read")
    )
    block = F.coalesce(*(F.col(f"_read.{place}") for place in _PLACES))
    orders = read.select(
        "_batch",
        "_topic",
        F.regexp_replace(block["id"], _TX_ID_AND_LSN, "$1").alias("_transaction"),
        block["data_collection_order"].try_cast("bigint").alias("_order"),
    )
    return orders.where("_transaction <> '' AND _order IS NOT NULL")


def _torn(orders: DataFrame) -> dict[tuple[str | None, str], tuple[int, list[int]]]:
    """The newest batch and the numbers of every table's part of a transaction that lacks some."""
    parts = orders.groupBy("_topic", "_transaction").agg(
        F.max("_batch").alias("batch"),
        F.count_distinct("_order").alias("n"),
        F.max("_order").alias("last"),
        F.collect_set("_order").alias("seen"),
    )
    found = parts.where("n < last").collect()
    return {
        (row["_topic"], row["_transaction"]): (row["batch"], sorted(row["seen"])) for row in found
    }


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
