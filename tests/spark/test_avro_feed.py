"""Avro records of Kafka in bronze, with their schemas; a rebuild needs no registry."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from bronze import kafka
from bronze.avro_schemas import keep_schemas, known
from bronze.feeds import feeds
from bronze.storage import append, prepare
from lakehouse.cli.rebuild import rebuild_table
from lakehouse.table import Table
from lakehouse.target import Target
from tests.avro import envelope_schema, optional, packed
from tests.lake import quiet, rows, settle

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
FIRST = [{"name": "id", "type": "int"}, {"name": "old", **optional("string")}]
SECOND = [*FIRST, {"name": "nr", **optional("int")}]
THIRD = [{"name": "id", "type": "long"}, {"name": "nr", **optional("long")}]
SCHEMAS = {1: KEY, 2: envelope_schema(FIRST), 3: envelope_schema(SECOND), 4: envelope_schema(THIRD)}
RECORDS = [
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp",
    "headers array<struct<key: string, value: binary>>",
]


class Served(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        id = int(self.path.rpartition("/")[2])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"schema": json.dumps(SCHEMAS[id])}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def event(id: int, lsn: int, row: dict[str, Any] | None) -> bytes:
    source = {
        "version": "3", "connector": "postgresql", "name": "s", "ts_ms": lsn, "db": "d",
        "schema": "p", "table": "t", "lsn": lsn, "txId": 1, "snapshot": None, "sequence": None,
    }  # fmt: skip
    op = "d" if row is None else "c"
    value = {"before": None, "after": row, "source": source, "op": op, "ts_ms": lsn}
    return packed(SCHEMAS[id], id, value)


def test_three_versions_of_a_schema_come_out_of_order_and_are_rebuilt_without_the_registry(
    spark: SparkSession, target: Target, registry: HTTPServer
) -> None:
    source = {
        "format": "debezium",
        "kafka": {"topic": "s.p.t", "bootstrap_servers": "localhost:9"},
        "value_format": "avro",
        "schema_registry": {"url": f"http://127.0.0.1:{registry.server_port}"},
    }
    table = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    values = [
        (9, event(4, 9, {"id": 2**40, "nr": 2**33})),
        (1, event(2, 1, {"id": 1, "old": "a"})),
        (3, event(2, 3, None)),
        (2, event(3, 2, {"id": 2, "old": "b", "nr": 5})),
        (1, None),
    ]
    key = packed(KEY, 1, {"id": 1})
    given = [Row(key, value, "s.p.t", 0, at, None, None) for at, (_, value) in enumerate(values)]
    records = spark.createDataFrame(given, ", ".join(RECORDS))
    (feed,) = feeds([table])
    prepare(spark, target, feed)

    keep_schemas(records, target, feed)
    assert feed.kafka is not None
    append(spark, target, feed, kafka.rows(records, feed.kafka, feed, 1), None)
    settle(spark, target, [table])
    expected = [{"id": 2, "nr": 5, "old": "b"}, {"id": 2**40, "nr": 2**33, "old": None}]

    assert sorted(known(spark, target, feed.name)) == ["1", "2", "3", "4"]
    assert sorted(rows(spark, target, "t"), key=lambda row: row["id"]) == expected

    registry.shutdown()
    rebuild_table(spark, target, table, quiet, [table])
    assert sorted(rows(spark, target, "t"), key=lambda row: row["id"]) == expected
