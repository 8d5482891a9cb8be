"""Kafka topics into bronze: each record once, with its topic, partition and offset.

Offsets are Spark's own, in the feed's checkpoint. When that is lost the topics are read from their
earliest offset again, and what bronze has already is passed over.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.checkpoint import Checkpoint, may_show_again
from bronze.contract import beginning
from bronze.counted import News, Records, total
from bronze.feeds import Feed
from bronze.files.batches import mark
from bronze.kafka.avro_schemas import keep_schemas
from bronze.kafka.headers import headers_json
from bronze.kafka.secrets import resolved
from bronze.loss.holes import jumps
from bronze.storage import Commit, append, hexadecimal
from bronze.streams import run_to_end
from lakehouse.config.table import Kafka, Table
from lakehouse.config.target import Target
from lakehouse.run.gaps import record
from lakehouse.spark.jars import Jar
from lakehouse.spark.numbers import as_text
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import name
from lakehouse.storage.newest import newest_batch

# What Spark says when records are gone, on the driver and in a task.
LOSS = ("KAFKA_DATA_LOSS", "Some data may have been lost", "OffsetOutOfRangeException")
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
# The connector asks for this module in its own version, which not every mirror of Maven Central
# has; this one works with it.
TOKENS = Jar(
    "org.apache.spark",
    "spark-token-provider-kafka-0-10_2.13",
    "4.0.0",
    "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
)


def packages(tables: Iterable[Table]) -> list[str]:
    """Maven coordinates that a local Spark needs for the tables' sources."""
    return [CONNECTOR] if reads_kafka(tables) else []


def jars(tables: Iterable[Table]) -> list[Jar]:
    """Jars that a local Spark needs beside those packages."""
    return [TOKENS] if reads_kafka(tables) else []


def reads_kafka(tables: Iterable[Table]) -> bool:
    """Whether some source of the tables is a topic."""
    return any(source.kafka for table in tables for source in table.feeds)


def ingest_kafka(
    spark: SparkSession, target: Target, feed: Feed, kafka: Kafka, place: Checkpoint, highest: int
) -> News | None:
    """Append what is new in the topics up to their ends now; None where bronze is to be asked.

    Batches are numbered after `highest`; a batch that an earlier run committed leaves a gap.
    Records that are gone at the source are noted as gaps, and what is there is taken.
    """
    topics, again = _Topics(feed, kafka, place), place.known > 0
    try:
        if not again:
            return _stream(spark, target, topics, highest, strict=True)
    except SPARK_FAILURES as failure:
        if not any(sign in str(failure) for sign in LOSS):
            raise
    now = newest_batch(spark, target, "bronze", feed.name) or 0
    found = _stream(spark, target, topics, now, strict=False)
    record(spark, target, jumps(spark, target, feed, highest), "")
    return found if now == highest else None


class _Topics(NamedTuple):
    """The topics of a feed, and the checkpoint of their stream."""

    feed: Feed
    kafka: Kafka
    place: Checkpoint


def _stream(
    spark: SparkSession, target: Target, topics: _Topics, highest: int, strict: bool
) -> News | None:
    """Run the stream to the topics' ends; a strict one fails where records are gone."""
    feed, kafka, place = topics
    number, written, again = highest, list[tuple[int, Records | None]](), may_show_again(place)

    def ingest_batch(found: DataFrame, batch_id: int) -> None:
        nonlocal number
        number += 1
        unknown = _unknown(found, target, feed, place)
        keep_schemas(unknown, target, feed)
        commit = Commit(place.id, batch_id, again)
        fresh = rows(unknown, kafka, feed, number)
        written.append((number, append(found.sparkSession, target, feed, fresh, commit)))

    given = options(feed, kafka, place.known > 0) | {"failOnDataLoss": str(strict).lower()}
    secret = resolved(spark, kafka.security)
    stream = spark.readStream.format("kafka").options(**given)
    stream = stream.options(**{_kafka_option(key): text for key, text in secret.items()})
    writer = stream.load().writeStream.foreachBatch(ingest_batch)
    came = run_to_end(writer.option("checkpointLocation", place.folder))
    return total(highest, written) if written or not came else None


def options(feed: Feed, kafka: Kafka, again: bool) -> dict[str, str]:
    """Options of the stream but the secret ones; `again` reads from the earliest offset."""
    limit = {"maxOffsetsPerTrigger": str(feed.max_offsets)} if feed.max_offsets else {}
    return limit | {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": kafka.topic,
        "startingOffsets": "earliest" if again else kafka.starting_offsets,
        "includeHeaders": "true",
    }


def rows(records: DataFrame, kafka: Kafka, feed: Feed, number: int) -> DataFrame:
    """Kafka's records as rows of the contract, in no order; `_arrival` tells theirs.

    `_arrival` is in hex: batch (8 digits), the topic's place in the list of topics (4), partition
    (8), offset (16), and the feed's mark (4), so that no two feeds share one.
    """
    now = time.time_ns() // 1000
    return records.select(
        F.col("value").cast("string").alias("_raw"),
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.col("key").cast("string").alias("_key"),
        headers_json(F.col("headers")).alias("_headers"),
        F.lit(None).cast("string").alias("_file"),
        F.lit(None).cast("bigint").alias("_line"),
        F.lit(False).alias("_whole"),
        as_text(number, F.col("topic")).alias("_batch"),
        F.timestamp_micros(as_text(now, F.col("topic"))).alias("_arrived_at"),
        _arrival(kafka, feed, number).alias("_arrival"),
    )


def _arrival(kafka: Kafka, feed: Feed, number: int) -> Column:
    topics = F.array(*[F.lit(topic.strip()) for topic in kafka.topic.split(",")])
    return F.concat(
        F.lit(beginning(number)),
        hexadecimal(F.array_position(topics, F.col("topic")), 4),
        hexadecimal(F.col("partition"), 8),
        hexadecimal(F.col("offset"), 16),
        F.lit(mark(feed)),
    )


def _unknown(found: DataFrame, target: Target, feed: Feed, place: Checkpoint) -> DataFrame:
    """The records that no batch older than the checkpoint has; asks only after it was lost."""
    if not place.known:
        return found
    bronze = found.sparkSession.table(name(target, "bronze", feed.name))
    reached = bronze.where(F.col("_batch") <= place.known).groupBy("_topic", "_partition")
    known = reached.agg(F.max("_offset").alias("_known"))
    same = (F.col("topic") == F.col("_topic")) & (F.col("partition") == F.col("_partition"))
    joined = found.join(F.broadcast(known), same, "left")
    return joined.where(F.col("_known").isNull() | (F.col("offset") > F.col("_known")))


def _kafka_option(key: str) -> str:
    return key if key.startswith("kafka.") else f"kafka.{key}"
