"""Avro through Kafka and a real registry: the rows and history of the same changes in JSON.

Three versions of a schema are named in the three ways there are: by Confluent's ids, by Apicurio's
of 8 bytes, and by Apicurio's in headers.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.work.rebuild import rebuild_table
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.e2e.apicurio import Apicurio, Ids
from tests.e2e.kafka_broker import Broker
from tests.e2e.parts import needs_kafka
from tests.helpers import lakes
from tests.helpers.avro import envelope_schema, optional, packed

Given = dict[str, Any]
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
FIRST = {"id": "int", "old": "string"}
SECOND = {"id": "int", "old": "string", "nr": "int"}
THIRD = {"id": "long", "nr": "long"}
VERSIONS = {1: FIRST, 2: SECOND, 3: THIRD}
CONNECT = {"int": "int32", "long": "int64", "string": "string"}


class Change(NamedTuple):
    """A change whose row has the columns of a version; `ms` is the time at the source."""

    version: int
    ms: int
    op: str
    row: Given


CHANGES = (
    (
        Change(3, 40, "c", {"id": 2**40, "nr": 2**33}),
        Change(1, 10, "c", {"id": 1, "old": "a"}),
        Change(2, 20, "c", {"id": 2, "old": "b", "nr": 5}),
    ),
    (
        Change(3, 60, "u", {"id": 1, "nr": 7}),
        Change(1, 15, "u", {"id": 1, "old": "A"}),
        Change(2, 30, "d", {"id": 2, "old": "b", "nr": 5}),
        Change(3, 50, "u", {"id": 2**40, "nr": None}),
    ),
)


def avro_schema(version: int) -> Given:
    columns = VERSIONS[version].items()
    fields = [{"name": c, **({"type": t} if c == "id" else optional(t))} for c, t in columns]
    return envelope_schema(fields)


def envelope(change: Change) -> Given:
    source = {
        "version": "3", "connector": "postgresql", "name": "s", "ts_ms": change.ms, "db": "d",
        "schema": "p", "table": "t", "lsn": change.ms, "txId": 1, "snapshot": None,
        "sequence": None,
    }  # fmt: skip
    gone = change.op == "d"
    before, after = (change.row, None) if gone else (None, change.row)
    return {"before": before, "after": after, "source": source, "op": change.op, "ts_ms": 99}


def in_avro(change: Change, ids: Mapping[int, Ids], key_id: int) -> Given:
    key = packed(KEY, key_id, {"id": change.row["id"]})
    schema, value, known = avro_schema(change.version), envelope(change), ids[change.version]
    if change.version == 1:
        return {"key": key, "value": packed(schema, known.confluent, value)}
    if change.version == 2:
        return {"key": key, "value": packed(schema, known.own, value, long=True)}
    headers = [("apicurio.value.globalId", known.own.to_bytes(8, "big"))]
    return {"key": key, "value": packed(schema, known.own, value)[5:], "headers": headers}


def in_json(change: Change) -> Given:
    columns = VERSIONS[change.version].items()
    fields = [{"field": column, "type": CONNECT[type]} for column, type in columns]
    schema = {"type": "struct", "fields": [{"field": "after", "fields": fields}]}
    value = json.dumps({"schema": schema, "payload": envelope(change)}).encode()
    return {"key": json.dumps({"id": change.row["id"]}).encode(), "value": value}


def sent(changes: Iterable[Change], written: Callable[[Change], Given]) -> Iterator[Given]:
    for change in changes:
        record = written(change)
        yield record
        if change.op == "d":
            yield {"key": record["key"], "value": None}


def table(kafka: Broker, topic: str, **source: object) -> Table:
    place = {"topic": topic, "bootstrap_servers": kafka.servers}
    feed = {"format": "debezium", "kafka": place} | source
    given = {"table": topic.replace(".", "_"), "keys": ["id"], "source": feed}
    return Table.model_validate(given | {"stored_as_scd_type": 2})


def shown(lake: Lake, of: Table) -> tuple[list[str], list[str], str]:
    """The rows, the versions without what the arrival tells, and the columns' types."""
    views = (lakes.rows(lake, f"{of.table}{part}") for part in ("", "_history"))
    rows, versions = (sorted(repr(sorted(row.items())) for row in view) for view in views)
    types = lake.spark.sql(f"SELECT id, nr, old FROM gold.{of.table}").schema
    return rows, versions, types.simpleString()


@pytest.mark.slow
@needs_kafka
def test_three_versions_in_avro_are_the_same_as_in_json_and_rebuilt_without_the_registry(
    spark: SparkSession, kafka: Broker, apicurio: Apicurio, target: Target
) -> None:
    server = apicurio.start()
    key_id = apicurio.register("avro.t-key", KEY).confluent
    ids = {version: apicurio.register("avro.t-value", avro_schema(version)) for version in VERSIONS}
    source = {"value_format": "avro", "schema_registry": {"url": apicurio.url}}
    avro, plain = table(kafka, "avro.t", **source), table(kafka, "json.t")
    for topic in ("avro.t", "json.t"):
        kafka.create(topic)
    for changes in CHANGES:
        kafka.produce("avro.t", sent(changes, lambda change: in_avro(change, ids, key_id)))
        kafka.produce("json.t", sent(changes, in_json))
        lakes.run(Lake(spark, target), [avro, plain])
    server.stop()
    found, expected = shown(Lake(spark, target), avro), shown(Lake(spark, target), plain)

    assert found == expected
    assert {row["id"] for row in lakes.rows(Lake(spark, target), "avro_t")} == {1, 2**40}
    assert found[2] == "struct<id:bigint,nr:bigint,old:string>"

    rebuild_table(Lake(spark, target), avro, lakes.quiet, [avro, plain])
    assert shown(Lake(spark, target), avro) == expected
