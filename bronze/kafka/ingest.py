"""Copies Kafka topics into bronze: each record once, with its topic, partition and offset.

A run reads from the offset after the last one that was read to the topic's current end. Topics with
few new records are read in one query; each table with records gets one append.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import arrival_prefix
from bronze.feed_state import FeedState, Note, Offsets
from bronze.feeds import Feed
from bronze.files.batches import feed_mark
from bronze.kafka.avro_schemas import keep_schemas, render_headers
from bronze.kafka.topics import Connection, TopicBounds, connection_of, topics_of
from bronze.loss.holes import tables_of_topic
from bronze.storage import News, append_here, append_spread, to_hexadecimal
from lakehouse.config.source import Kafka
from lakehouse.config.table import Table
from lakehouse.run.gaps import Gap, add_gaps
from lakehouse.spark.local_rows import as_text
from lakehouse.spark.local_settings import Jar
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
# The connector depends on its own version of this module, which some mirrors of Maven Central lack;
# this version works with it.
TOKENS = Jar(
    "org.apache.spark",
    "spark-token-provider-kafka-0-10_2.13",
    "4.0.0",
    "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
)

FEW = 2_000
"""Up to this many records, over all feeds of a connection, are read by this process."""

_LATEST, _EARLIEST = -1, -2
_TAKEN = (
    "topic AS _topic",
    "partition AS _partition",
    "offset AS _offset",
    "timestamp AS _timestamp",
    "CAST(key AS string) AS _key",
    f"{render_headers('headers')} AS _headers",
)

Ranges: TypeAlias = Mapping[tuple[str, str], tuple[int, int]]
"""By topic and partition: the first offset to read, and the offset after the last one."""


class ReadingPlan(NamedTuple):
    """What a run will read of a feed, and the records that are lost at the source."""

    feed: Feed
    kafka: Kafka
    state: FeedState
    ranges: Ranges
    gaps: Sequence[Gap]


def list_packages(tables: Iterable[Table]) -> list[str]:
    """Maven coordinates of the packages that a local Spark needs for the tables' sources."""
    return [CONNECTOR] if reads_kafka(tables) else []


def list_jars(tables: Iterable[Table]) -> list[Jar]:
    """Jars that a local Spark needs in addition to the packages."""
    return [TOKENS] if reads_kafka(tables) else []


def reads_kafka(tables: Iterable[Table]) -> bool:
    """Whether some source of the tables is a Kafka topic."""
    return any(source.kafka for table in tables for source in table.feeds)


def plan_feed(feed: Feed, kafka: Kafka, state: FeedState, bounds: TopicBounds) -> ReadingPlan:
    """The offsets to read of a feed's topics.

    If a partition ends before the next offset to read, its topic was deleted and created again: it
    is read from its beginning.
    """
    ranges: dict[tuple[str, str], tuple[int, int]] = {}
    gaps: list[Gap] = []
    for topic, partitions in bounds.items():
        for partition, (first, end) in partitions.items():
            after = state.taken.offsets.get(topic, {}).get(partition)
            start = _first_start(kafka, state, topic, partition) if after is None else after
            begin = {_LATEST: end, _EARLIEST: first}.get(start, start)
            if begin > end:
                begin = first
            if after is not None and begin < first:
                missing = {"topic": topic, "partition": int(partition)}
                lost = missing | {"first": begin, "last": first - 1}
                gaps += [Gap(table=t, feed=feed.name, **lost) for t in tables_of_topic(feed, topic)]
            ranges[topic, partition] = max(begin, first), end
    return ReadingPlan(feed, kafka, state, ranges, gaps)


def _first_start(kafka: Kafka, state: FeedState, topic: str, partition: str) -> int:
    """The start of a partition that was never read; one that is new is read from its beginning."""
    if state.notes or kafka.starting_offsets == "earliest":
        return _EARLIEST
    if kafka.starting_offsets == "latest":
        return _LATEST
    given: Offsets = json.loads(kafka.starting_offsets)
    return given.get(topic, {}).get(partition, _EARLIEST)


def fetch_few(spark: SparkSession, plans: Iterable[ReadingPlan]) -> dict[str, pa.Table]:
    """New records by feed, read in one query per connection; without feeds with many records.

    If a query fails, all feeds of its connection are left out: each is then read by itself.
    """
    by_feed: dict[str, pa.Table] = {}
    for some in _group_plans(plans):
        ranges = {at: span for plan in some for at, span in plan.ranges.items()}
        if _count_offsets(ranges) > FEW:
            continue
        try:
            read = read_ranges(spark, some[0].kafka, ranges)
            fetched = read.selectExpr("value", "headers", "key", *_TAKEN).toArrow()
        except SPARK_FAILURES:
            continue
        for plan in some:
            topics = pa.array(topics_of(plan.kafka))
            by_feed[plan.feed.name] = fetched.filter(pc.is_in(fetched["_topic"], topics))
    return by_feed


def _group_plans(plans: Iterable[ReadingPlan]) -> Iterable[list[ReadingPlan]]:
    """The plans with few records, grouped by connection, each partition once."""
    groups: dict[Connection, list[ReadingPlan]] = {}
    for plan in plans:
        if not 0 < _count_offsets(plan.ranges) <= min(FEW, plan.feed.max_offsets or FEW):
            continue
        some = groups.setdefault(connection_of(plan.kafka), [])
        if all(plan.ranges.keys().isdisjoint(other.ranges) for other in some):
            some.append(plan)
    return groups.values()


def ingest_kafka(lake: Lake, plan: ReadingPlan, fetched: pa.Table | None, before: int) -> News:
    """Appends the new records of the topics, in batches numbered after `before`.

    Records that are lost at the source are recorded as gaps; the others are read.
    """
    feed, state = plan.feed, plan.state
    add_gaps(lake, plan.gaps, "")
    if not state.notes:
        state.add_note(Note(0, offsets=_to_offsets(plan.ranges, 0), unnumbered=True))
    came = News(0, {}, {})
    for number, ranges in enumerate(cut_ranges(plan.ranges, feed.max_offsets), before + 1):
        if fetched is None:
            records = read_ranges(lake.spark, plan.kafka, ranges)
            keep_schemas(lake, records, feed)
            rows = build_rows(records, plan.kafka, feed, number)
            news = append_spread(lake, feed, rows, number)
        else:
            news = _append_fetched(lake, plan, fetched, number)
        offsets = _to_offsets(ranges, 1)
        state.add_note(Note(news.batch, offsets=offsets, unnumbered=news.unnumbered))
        came = came.combine(news)
    return came


def recover_offsets(lake: Lake, feed: Feed, state: FeedState, newest: int) -> None:
    """Adds a note of offsets that bronze has without one, because a run was killed.

    The newest batch counts, as offsets of a topic that was created again are lower.
    """
    offsets: Offsets = {}
    if newest > state.taken.batch:
        bronze = lake.spark.table(lake.name("bronze", feed.name))
        new = bronze.where(F.col("_batch") > state.taken.batch).where("_offset IS NOT NULL")
        last = F.max(F.struct("_batch", "_offset"))["_offset"].alias("last")
        for row in new.groupBy("_topic", "_partition").agg(last).collect():
            offsets.setdefault(row["_topic"], {})[str(row["_partition"])] = row["last"] + 1
    if offsets:
        state.add_note(Note(newest, offsets=offsets))


def _append_fetched(lake: Lake, plan: ReadingPlan, fetched: pa.Table, number: int) -> News:
    feed, count = plan.feed, fetched.num_rows
    if feed.registry is not None and count:
        keep_schemas(lake, lake.spark.createDataFrame(fetched), feed)
    begin, end = arrival_prefix(number), feed_mark(feed)
    order = {topic: at for at, topic in enumerate(topics_of(plan.kafka), 1)}
    places = zip(
        *(fetched[c].to_pylist() for c in ("_topic", "_partition", "_offset")), strict=True
    )
    arrivals = [f"{begin}{order[t]:04X}{p:08X}{o:016X}{end}" for t, p, o in places]
    now = datetime.now(timezone.utc)
    columns = {column: fetched[column] for column in fetched.schema.names if column[0] == "_"} | {
        "_raw": fetched["value"],
        "_file": pa.nulls(count, pa.string()),
        "_line": pa.nulls(count, pa.int64()),
        "_whole": pa.array([False] * count, pa.bool_()),
        "_batch": pa.array([number] * count, pa.int64()),
        "_arrived_at": pa.array([now] * count, pa.timestamp("us", "UTC")),
        "_arrival": pa.array(arrivals, pa.string()),
    }
    return append_here(lake, feed, pa.table(columns), number)


def read_ranges(spark: SparkSession, kafka: Kafka, ranges: Ranges) -> DataFrame:
    """The records of some ranges of offsets."""
    filled = {at: span for at, span in ranges.items() if span[0] < span[1]}
    assigned: dict[str, list[int]] = {}
    for topic, partition in filled:
        assigned.setdefault(topic, []).append(int(partition))
    given = {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(_to_offsets(filled, 0)),
        "endingOffsets": json.dumps(_to_offsets(filled, 1)),
        "includeHeaders": "true",
    }
    connection = connection_of(kafka).options(spark)
    return spark.read.format("kafka").options(**connection, **given).load()


def cut_ranges(ranges: Ranges, most: int | None) -> Iterator[Ranges]:
    """Splits the ranges into batches of at most `most` offsets, in proportion to partitions."""
    left = {at: span for at, span in ranges.items() if span[0] < span[1]}
    while left:
        total = _count_offsets(left)
        part = {
            at: (
                begin,
                end if most is None else min(end, begin + max(1, most * (end - begin) // total)),
            )
            for at, (begin, end) in left.items()
        }
        yield part
        left = {at: (part[at][1], end) for at, (_, end) in left.items() if part[at][1] < end}


def _count_offsets(ranges: Ranges) -> int:
    return sum(end - begin for begin, end in ranges.values())


def _to_offsets(ranges: Ranges, side: int) -> Offsets:
    """The first offsets of the ranges (`side` 0), or the offsets after their ends (1)."""
    offsets: Offsets = {}
    for (topic, partition), span in ranges.items():
        offsets.setdefault(topic, {})[partition] = span[side]
    return offsets


def build_rows(records: DataFrame, kafka: Kafka, feed: Feed, number: int) -> DataFrame:
    """Kafka's records as bronze rows, unsorted; `_arrival` sorts them.

    `_arrival` is in hex: batch (8 digits), the topic's place in the list of topics (4), partition
    (8), offset (16), and the feed's mark (4), so that no two feeds share one.
    """
    taken = records.selectExpr("CAST(value AS string) AS _raw", *_TAKEN)
    now = time.time_ns() // 1000
    topics = F.array(*[F.lit(topic) for topic in topics_of(kafka)])
    place: list[Column] = [
        F.lit(arrival_prefix(number)),
        to_hexadecimal(F.array_position(topics, F.col("_topic")), 4),
        to_hexadecimal(F.col("_partition"), 8),
        to_hexadecimal(F.col("_offset"), 16),
        F.lit(feed_mark(feed)),
    ]
    return taken.select(
        *taken.columns,
        F.lit(None).cast("string").alias("_file"),
        F.lit(None).cast("bigint").alias("_line"),
        F.lit(False).alias("_whole"),
        as_text(number, F.col("_topic")).alias("_batch"),
        F.timestamp_micros(as_text(now, F.col("_topic"))).alias("_arrived_at"),
        F.concat(*place).alias("_arrival"),
    )
