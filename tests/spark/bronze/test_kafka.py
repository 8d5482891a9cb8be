from datetime import datetime
from typing import Any

from pyspark.sql import Row, SparkSession

from bronze.contract import COLUMNS
from bronze.feeds import list_feeds
from bronze.kafka.ingest import build_rows
from lakehouse.config.source import Kafka
from lakehouse.config.table import Table

KAFKA = Kafka(topic="a,b", bootstrap_servers="k:9092")
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
AT = datetime.fromisoformat("2026-01-02")


def ingested(spark: SparkSession, *records: tuple[Any, ...]) -> list[Row]:
    source = {"format": "debezium", "kafka": KAFKA}
    table = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    frame = build_rows(
        spark.createDataFrame(list(records), SCHEMA), KAFKA, list_feeds([table])[0], 5
    )
    return frame.orderBy("_arrival").collect()


def test_a_record_keeps_its_text_and_place(spark: SparkSession) -> None:
    (row,) = ingested(spark, (b'{"id":1}', b'{"op":"c"}', "a", 2, 7, AT, None))
    assert list(row.asDict()) == [column.name for column in COLUMNS]
    place = [row[column] for column in ("_raw", "_key", "_topic", "_partition", "_offset")]
    assert place == ['{"op":"c"}', '{"id":1}', "a", 2, 7]
    assert (row["_timestamp"], row["_whole"], row["_batch"], row["_headers"]) == (
        AT,
        False,
        5,
        None,
    )


def test_a_tombstone_stays_null(spark: SparkSession) -> None:
    (row,) = ingested(spark, (b"1", None, "a", 0, 0, AT, None))
    assert row["_raw"] is None


def test_the_last_header_of_a_name_counts(spark: SparkSession) -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    (row,) = ingested(spark, (None, b"v", "a", 0, 0, AT, headers))
    assert row["_headers"] == '{"b":null,"a":"2"}'


def test_arrival_follows_the_offsets_of_a_partition(spark: SparkSession) -> None:
    records = [(None, b"v", topic, 1, offset, AT, None) for topic in "ba" for offset in (300, 9)]
    found = ingested(spark, *records)
    places = [(row["_topic"], row["_offset"]) for row in found]
    assert places == [("a", 9), ("a", 300), ("b", 9), ("b", 300)]
    assert len({row["_arrival"] for row in found}) == 4
