"""Finds missing changes in a feed's bronze table: skipped offsets, incomplete transactions.

Offsets of YDB's topics are consecutive, so a jump means that records were deleted before they were
read (YDB: the last offset read and the earliest available one "will differ by more than one").
Offsets of Kafka's topics may jump because of compaction and producers' transactions: for them
`bronze.kafka.ingest` compares the next offset with the first one that the broker still has.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bronze.feeds import Feed
from lakehouse.run.gaps import Gap
from lakehouse.storage.lake import Lake

LOOK_BACK = 20
MAY_BE_NUMBERED = "contains(_raw, '\"data_collection_order\"')"
"""Whether a record may be a change that is numbered within its transaction, in SQL."""

Orders: TypeAlias = Mapping[tuple[str | None, str], set[int]]
"""The numbers of changes by topic and transaction."""

_ORDER_NAME = b'"data_collection_order"'
_TX_ID_AND_LSN = r"^([0-9]+):[0-9]+$"
"""PostgreSQL's transaction id and position, of which the position differs within a transaction."""
_BLOCK = "transaction: struct<id: string, data_collection_order: string>"
_PAYLOAD = f"{_BLOCK}, payload: struct<{_BLOCK}>"
_RECORD = f"struct<{_PAYLOAD}, value: struct<{_PAYLOAD}>>"
_PLACES = ("transaction", "payload.transaction", "value.transaction", "value.payload.transaction")


class OffsetRun(NamedTuple):
    """Consecutive offsets of one batch in a partition."""

    batch: int
    first: int
    last: int


class _Envelope(msgspec.Struct):
    """An object that may contain Debezium's block: the event, its envelope, or a whole record."""

    transaction: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()
    value: msgspec.Raw = msgspec.Raw()


class _Block(msgspec.Struct):
    id: str | int | None = None
    data_collection_order: int | None = None


_ENVELOPES, _BLOCKS = msgspec.json.Decoder(_Envelope), msgspec.json.Decoder(_Block, strict=False)


def find_jumps(lake: Lake, feed: Feed, after: int) -> list[Gap]:
    """Offsets that were skipped since batch `after`, per topic and partition of the tables."""
    at = ["_topic", "_partition"]
    rows = _read_rows(lake, feed).where("_offset IS NOT NULL")
    new = rows.where(F.col("_batch") > after).select(*at, "_batch", "_offset")
    newest = F.max(F.struct("_batch", "_offset"))["_offset"]
    earlier = rows.where(F.col("_batch") <= after).groupBy(*at)
    reached = earlier.agg(F.array(F.max("_offset"), newest).alias("_ends")).select(
        *at, F.lit(after).cast("bigint").alias("_batch"), F.explode("_ends").alias("_offset")
    )
    order = Window.partitionBy(*at, "_batch").orderBy("_offset")
    in_a_row = F.col("_offset") - F.dense_rank().over(order)
    numbered = new.unionByName(reached).withColumn("_run", in_a_row)
    runs = numbered.groupBy(*at, "_batch", "_run").agg(
        F.min("_offset").alias("first"), F.max("_offset").alias("last")
    )
    by_partition: dict[tuple[str, int], list[OffsetRun]] = {}
    for topic, partition, batch, _, first, last in runs.orderBy(*at, "_batch", "first").collect():
        by_partition.setdefault((topic, partition), []).append(OffsetRun(batch, first, last))
    return [
        Gap(table=table, feed=feed.name, topic=topic, partition=partition, first=first, last=last)
        for (topic, partition), of_partition in by_partition.items()
        for first, last in find_skipped(of_partition, after)
        for table in tables_of_topic(feed, topic)
    ]


def find_skipped(runs: Iterable[OffsetRun], after: int) -> Iterator[tuple[int, int]]:
    """The first and last offset of each jump to a run of a batch later than `after`.

    Runs are sorted. A run is compared with what had come by then below it: the offsets of a topic
    that was created again begin anew below all others, which is no jump.
    """
    covered: list[OffsetRun] = []
    for run in runs:
        below = max(
            (min(k.last, run.first - 1) for k in covered if k.first < run.first), default=None
        )
        if run.batch > after and below is not None and run.first - below > 1:
            yield below + 1, run.first - 1
        if covered and covered[-1].first <= run.first <= covered[-1].last + 1:
            covered[-1] = run._replace(
                first=covered[-1].first, last=max(covered[-1].last, run.last)
            )
        else:
            covered.append(run)


def collect_orders(topics: Iterable[str | None], records: Iterable[bytes | None]) -> Orders:
    """The numbers of changes within transactions in some records."""
    orders: dict[tuple[str | None, str], set[int]] = {}
    for topic, raw in zip(topics, records, strict=True):
        if raw is None or _ORDER_NAME not in raw:
            continue
        try:
            block = _parse_block(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if block is not None and block.id and block.data_collection_order is not None:
            transaction = re.sub(_TX_ID_AND_LSN, r"\1", str(block.id))
            orders.setdefault((topic, transaction), set()).add(block.data_collection_order)
    return orders


def _parse_block(raw: bytes | msgspec.Raw) -> _Block | None:
    """Debezium's transaction block in a record; None if there is none."""
    outer = _ENVELOPES.decode(raw)
    if bytes(outer.transaction).startswith(b"{"):
        return _BLOCKS.decode(outer.transaction)
    inner = [each for each in (outer.payload, outer.value) if bytes(each).startswith(b"{")]
    return next((block for each in inner if (block := _parse_block(each)) is not None), None)


def find_torn_transactions(
    lake: Lake, feed: Feed, looked: range, orders: Orders | None
) -> tuple[list[Gap], Orders]:
    """Gaps in the numbers of changes in the transactions of some batches (`looked`).

    Debezium numbers each table's changes of a transaction from 1; how many there are it does not
    say in them, so a lost tail is not detected. `orders` are the numbers in these
    batches; None queries bronze. As a transaction may begin in an earlier batch, incomplete ones
    are searched in a few earlier batches, then in all. Incomplete transactions of the last batch
    may be completed by the next: they are no gaps yet and returned as the second value.
    """
    rows = _read_rows(lake, feed)
    torn: Mapping[tuple[str | None, str], object]
    if orders is None:
        torn = _find_torn(_read_orders(rows.where(F.col("_batch") >= looked.start)))
    else:
        torn = {key: seen for key, seen in orders.items() if len(seen) < max(seen)}
    incomplete: dict[tuple[str | None, str], tuple[int, list[int]]] = {}
    for earliest in sorted({max(looked.start - LOOK_BACK, 0), 0}, reverse=True):
        if not torn:
            return [], {}
        earlier = _read_orders(rows.where(F.col("_batch") >= earliest))
        transactions = sorted({transaction for _, transaction in torn})
        torn = incomplete = _find_torn(earlier.where(F.col("_transaction").isin(transactions)))
    waiting = {key: set(seen) for key, (batch, seen) in incomplete.items() if batch == looked[-1]}
    gaps = [gap for (topic, transaction), (_, seen) in incomplete.items()
            if (topic, transaction) not in waiting
            for gap in _list_gaps(feed, topic, transaction, seen)]  # fmt: skip
    return gaps, waiting


def is_filled(lake: Lake, feed: Feed, gap: Gap) -> bool:
    """Whether bronze has all missing records of a gap by now."""
    rows = _read_rows(lake, feed).where(F.col("_topic").eqNullSafe(F.lit(gap.topic)))
    if gap.kind == "transaction":
        same = F.col("_transaction").eqNullSafe(F.lit(gap.transaction))
        orders = _read_orders(rows).where(same)
        numbers = orders.where(F.col("_order").between(gap.first, gap.last)).select("_order")
    else:
        same = F.col("_partition").eqNullSafe(F.lit(gap.partition))
        is_missing = F.col("_offset").between(gap.first, gap.last)
        numbers = rows.where(same & is_missing).select("_offset")
    return numbers.distinct().count() == gap.last - gap.first + 1


def _read_rows(lake: Lake, feed: Feed) -> DataFrame:
    return lake.spark.table(lake.name("bronze", feed.name))


def _read_orders(rows: DataFrame) -> DataFrame:
    """Changes numbered within a transaction: `_batch`, `_topic`, `_transaction`, `_order`."""
    read = rows.where(MAY_BE_NUMBERED).select(
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


def _find_torn(orders: DataFrame) -> dict[tuple[str | None, str], tuple[int, list[int]]]:
    """The newest batch and the numbers of incomplete transactions, by topic and transaction."""
    parts = orders.groupBy("_topic", "_transaction").agg(
        F.max("_batch").alias("batch"),
        F.count_distinct("_order").alias("n"),
        F.max("_order").alias("last"),
        F.collect_set("_order").alias("seen"),
    )
    rows = parts.where("n < last").collect()
    return {
        (row["_topic"], row["_transaction"]): (row["batch"], sorted(row["seen"])) for row in rows
    }


def _list_gaps(
    feed: Feed, topic: str | None, transaction: str, seen: Sequence[int]
) -> Iterator[Gap]:
    for before, after in zip([0, *seen], seen, strict=False):
        if after - before > 1:
            for table in tables_of_topic(feed, topic):
                yield Gap(
                    table=table, feed=feed.name, topic=topic, kind="transaction",
                    transaction=transaction, first=before + 1, last=after - 1,
                )  # fmt: skip


def tables_of_topic(feed: Feed, topic: str | None) -> list[str]:
    """The tables of a feed that read a topic."""
    return [table for table, topics in feed.tables.items() if reads_topic(topics, topic)]


def reads_topic(topics: Collection[str], topic: str | None) -> bool:
    """Whether a table that reads these topics, or all where there are none, reads a topic."""
    return not topics or topic in topics
