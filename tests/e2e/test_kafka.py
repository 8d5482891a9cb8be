"""Kafka topics and dropped files bring the same rows to silver and gold."""

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.work.rounds import Round, do_layer
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.storage.names import name
from silver.fold.order_key import sequence_of
from tests import lake
from tests.captures import shop
from tests.conftest import target_at
from tests.e2e.broker import Broker
from tests.e2e.parts import needs_kafka

FIXTURES = Path(__file__).parents[1] / "fixtures" / "shop" / "events"
# What tells where a record lay, and so differs between a file and a topic.
PLACE = ("_arrival", "_batch", "_offset", "_partition", "_position", "_raw", "_feed_batch", "_feed")


def captured() -> list[dict[str, Any]]:
    with gzip.open(FIXTURES / "small.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def record(captured: Mapping[str, Any]) -> dict[str, Any]:
    headers = [(key, _bytes(value)) for key, value in captured.get("headers", {}).items()]
    key, value = _bytes(captured["key"]), _bytes(captured["value"])
    return {"key": key, "value": value, "headers": headers}


def _bytes(value: object) -> bytes | None:
    return None if value is None else json.dumps(value, separators=(",", ":")).encode()


def from_kafka(table: Table, kafka: Broker, topics: str, prefix: str) -> Table:
    """The table with its own topic of Kafka in place of the folder."""
    source = table.feeds[0]
    given = {"topic": topics, "bootstrap_servers": kafka.servers}
    own = f"{prefix}{source.topic}"
    fed = source.model_copy(update={"path": None, "topic": own, "kafka": None})
    feed = type(source).model_validate(fed.model_dump() | {"kafka": given})
    return table.model_copy(update={"source": feed})


def rows(spark: SparkSession, target: Target, table: str) -> list[dict[str, Any]]:
    found = spark.table(name(target, "silver", table))
    kept = found.select(*[c for c in found.columns if c not in PLACE and c != "_row"])
    return sorted((row.asDict() for row in kept.collect()), key=repr)


@pytest.fixture
def two_lakes(tmp_path: Path) -> tuple[Target, Target]:
    return target_at(tmp_path / "files"), target_at(tmp_path / "kafka")


@needs_kafka
def test_files_and_kafka_give_the_same_silver(
    spark: SparkSession, kafka: Broker, two_lakes: tuple[Target, Target]
) -> None:
    files, topics = two_lakes
    chosen = ("orders", "products")
    tables = [table for table in shop() if table.table in chosen]
    events = captured()
    named = sorted({f"same.{table.feeds[0].topic}" for table in tables})
    for topic in named:
        kafka.create(topic)
    with_kafka = [from_kafka(table, kafka, ",".join(named), "same.") for table in tables]
    for at, part in enumerate((events[:200], events[200:])):
        lake.land(files, "shop", f"{at}.jsonl", [json.dumps(event) for event in part])
        for topic in named:
            own = [e for e in part if f"same.{e['topic']}" == topic]
            kafka.produce(topic, map(record, own))
        lake.run(spark, files, tables)
        lake.run(spark, topics, with_kafka)
    for silver in ("orders_history", "products"):
        found = without_orders(rows(spark, topics, silver))
        expected = without_orders(rows(spark, files, silver))
        assert found
        differing = [(a, b) for a, b in zip(found, expected, strict=True) if a != b]
        assert differing == [], silver


def without_orders(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """An order key ends in the arrival, which a topic counts in its own way; facts hold some."""
    told = ("_order", "_next_order", "_from_order", "_to_order", "_life")
    placed = (
        {k: _place(v) if k in told else v for k, v in row.items() if k != "_facts"} for row in rows
    )
    return sorted(placed, key=repr)


def _place(order: bytes | None) -> bytes | None:
    return sequence_of(bytes(order)) if order else order


def ydb(topics: str, kafka: Broker, **source: object) -> Table:
    given = {"topic": topics, "bootstrap_servers": kafka.servers}
    feed = {"format": "ydb", "kafka": given, **source}
    return Table.model_validate({"table": "t", "keys": ["id"], "source": feed})


def change(key: int, value: str, partition: int = 0) -> dict[str, Any]:
    text = json.dumps({"key": [key], "update": {"v": value}, "ts": [key, 1]}).encode()
    return {"key": None, "value": text, "partition": partition}


@needs_kafka
def test_one_table_from_several_topics_and_partitions_in_ydbs_format(
    spark: SparkSession, kafka: Broker, target: Target
) -> None:
    kafka.create("ydb.a", 2)
    kafka.create("ydb.b")
    kafka.produce("ydb.a", [change(1, "x", 1), change(2, "y")])
    kafka.produce("ydb.b", [change(3, "z")])
    lake.run(spark, target, [ydb("ydb.a,ydb.b", kafka)])
    found = [(row["id"], row["v"]) for row in lake.rows(spark, target, "t")]
    assert sorted(found) == [(1, "x"), (2, "y"), (3, "z")]


@needs_kafka
def test_records_that_kafka_deleted_before_they_were_read_are_data_loss(
    spark: SparkSession, kafka: Broker, target: Target
) -> None:
    kafka.create("lost")
    table = ydb("lost", kafka)
    kafka.produce("lost", [change(key, "x") for key in range(3)])
    assert ingested(spark, target, table).message is None
    kafka.produce("lost", [change(key, "x") for key in range(3, 10)])
    kafka.delete_before("lost", 0, 7)
    entry = ingested(spark, target, table)
    assert (entry.status, entry.counts["records"]) == ("failed", 3)
    assert "offsets 3 to 6 of lost/0 are gone at the source" in str(entry.message)
    assert ingested(spark, target, ydb("lost", kafka, on_data_loss="continue")).message is None


def ingested(spark: SparkSession, target: Target, table: Table) -> Entry:
    (entry,) = do_layer(Round(spark, target, "r"), [table], "bronze", lake.quiet)
    return entry
