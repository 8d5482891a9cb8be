"""Kafka topics and dropped files bring the same rows to silver and gold."""

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.kafka import ingest
from cdc_lakehouse.cli.work.rounds import Round, do_layer
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import table_name
from silver.fold.order_key import sequence_of
from tests.conftest import target_at
from tests.e2e.kafka_broker import Broker
from tests.e2e.parts import needs_kafka
from tests.helpers import lakes
from tests.helpers.captures import shop

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


def rows(lake: Lake, table: str) -> list[dict[str, Any]]:
    found = lake.spark.table(lake.name("silver", table))
    kept = found.select(*[c for c in found.columns if c not in PLACE and c != "_row"])
    return sorted((row.asDict() for row in kept.collect()), key=repr)


@pytest.fixture
def two_lakes(tmp_path: Path) -> tuple[Target, Target]:
    return target_at(tmp_path / "files"), target_at(tmp_path / "kafka")


@needs_kafka
@pytest.mark.slow
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
        lakes.land(files, "shop", f"{at}.jsonl", [json.dumps(event) for event in part])
        for topic in named:
            own = [e for e in part if f"same.{e['topic']}" == topic]
            kafka.produce(topic, map(record, own))
        lakes.run(Lake(spark, files), tables)
        lakes.run(Lake(spark, topics), with_kafka)
    for silver in ("orders_history", "products"):
        found = without_orders(rows(Lake(spark, topics), silver))
        expected = without_orders(rows(Lake(spark, files), silver))
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
    lakes.run(Lake(spark, target), [ydb("ydb.a,ydb.b", kafka)])
    found = [(row["id"], row["v"]) for row in lakes.rows(Lake(spark, target), "t")]
    assert sorted(found) == [(1, "x"), (2, "y"), (3, "z")]


@pytest.mark.slow
@needs_kafka
def test_records_that_kafka_deleted_before_they_were_read_are_data_loss(
    spark: SparkSession, kafka: Broker, target: Target
) -> None:
    kafka.create("lost")
    table = ydb("lost", kafka)
    kafka.produce("lost", [change(key, "x") for key in range(3)])
    assert ingested(Lake(spark, target), table).message is None
    kafka.produce("lost", [change(key, "x") for key in range(3, 10)])
    kafka.delete_before("lost", 0, 7)
    entry = ingested(Lake(spark, target), table)
    assert (entry.status, entry.counts["records"]) == ("failed", 3)
    assert "offsets 3 to 6 of lost/0 are gone at the source" in str(entry.message)
    assert (
        ingested(Lake(spark, target), ydb("lost", kafka, on_data_loss="continue")).message is None
    )


def ingested(lake: Lake, table: Table) -> Entry:
    (entry,) = do_layer(Round(lake, "r"), [table], "bronze", lakes.quiet)
    return entry


def offsets(lake: Lake, table: str) -> list[tuple[int, int]]:
    """Batch and offset of each record in bronze, in order of arrival."""
    rows = lake.spark.table(lake.name("bronze", table)).orderBy("_arrival")
    return [(row["_batch"], row["_offset"]) for row in rows.collect()]


@needs_kafka
def test_news_of_many_topics_are_read_together_and_a_missing_topic_fails_alone(
    spark: SparkSession, kafka: Broker, target: Target
) -> None:
    names = [f"many{at}" for at in range(4)]
    for topic in names[:3]:
        kafka.create(topic)
        kafka.produce(topic, [change(1, topic), change(2, topic)])
    tables = [ydb(topic, kafka).model_copy(update={"table": topic}) for topic in names]
    memory = Memory()
    for records in ([2, 2, 2], [0, 0, 0], [1, 0, 0]):
        if records[0] == 1:
            kafka.produce("many0", [change(3, "x")])
        given = Round(Lake(spark, target), "r", memory=memory)
        entries = do_layer(given, tables, "bronze", lakes.quiet)
        assert [entry.counts.get("records") for entry in entries[:3]] == records
        assert [entry.status for entry in entries] == ["ok", "ok", "ok", "failed"]
    assert "there is no topic many3" in str(entries[3].message)
    assert offsets(Lake(spark, target), "many0") == [(1, 0), (1, 1), (2, 2)]


@needs_kafka
@pytest.mark.parametrize("limit", [None, pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_before_it_notes_its_offsets_repeats_no_record(
    spark: SparkSession, kafka: Broker, target: Target, limit: int | None
) -> None:
    topic = f"killed{limit}"
    kafka.create(topic, 2)
    table = ydb(topic, kafka, max_offsets_per_trigger=limit)
    kafka.produce(topic, [change(key, "x", key % 2) for key in range(8)])
    assert ingested(Lake(spark, target), table).counts["records"] == 8
    (folder,) = Path(target.checkpoints, "bronze").glob("*/taken")
    notes = sorted(folder.glob("*.json"))
    notes[-1].unlink()
    kafka.produce(topic, [change(key, "x") for key in range(8, 10)])
    assert ingested(Lake(spark, target), table).counts["records"] == 2
    for note in folder.glob("*.json"):
        note.unlink()
    assert ingested(Lake(spark, target), table).counts["records"] == 0
    rows = spark.table(table_name(target, "bronze", "t"))
    assert rows.select("_partition", "_offset").distinct().count() == rows.count() == 10
    most = max(row["count"] for row in rows.groupBy("_batch").count().collect())
    assert most == (2 if limit else 8), "3 offsets of two partitions are 1 of each, 2 in all"


@needs_kafka
def test_a_topic_that_is_read_from_its_end_goes_on_there(
    spark: SparkSession, kafka: Broker, target: Target
) -> None:
    kafka.create("latest")
    kafka.produce("latest", [change(1, "x")])
    table = ydb("latest", kafka)
    given = {"kafka": {**table.feeds[0].kafka.model_dump(), "starting_offsets": "latest"}}
    source = type(table.feeds[0]).model_validate(table.feeds[0].model_dump() | given)
    late = table.model_copy(update={"source": source})
    assert ingested(Lake(spark, target), late).counts["records"] == 0
    kafka.produce("latest", [change(2, "x")])
    assert ingested(Lake(spark, target), late).counts["records"] == 1
    assert offsets(Lake(spark, target), "t") == [(1, 1)]


@needs_kafka
def test_much_news_is_read_by_spark_and_gives_the_same_rows(
    spark: SparkSession, kafka: Broker, two_lakes: tuple[Target, Target], monkeypatch: Any
) -> None:
    kafka.create("much")
    headers = [("a", b"1"), ("a", None), ("apicurio.value.globalId", bytes(7) + b"\x05")]
    kafka.produce("much", [{"key": b"k", "value": b"\xff{", "headers": headers}, change(2, "y")])
    shown = []
    for target, few in zip(two_lakes, (ingest.FEW, 0), strict=True):
        monkeypatch.setattr(ingest, "FEW", few)
        assert ingested(Lake(spark, target), ydb("much", kafka)).counts["records"] == 2
        rows = spark.table(table_name(target, "bronze", "t")).drop("_arrived_at").orderBy("_offset")
        shown.append(rows.selectExpr("hex(_raw) AS bytes", "*").drop("_raw").collect())
    assert shown[0] == shown[1]
    assert shown[0][0]["_headers"] == '{"a":null,"apicurio.value.globalId":"5"}'
