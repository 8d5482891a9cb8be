"""Avro records of Kafka in bronze, with their schemas; a rebuild needs no registry."""

import json
from typing import Any

import pytest

from bronze.kafka.avro_schemas import read_schemas
from bronze.kafka.schema_registry import RegistryFailed
from cdc_lakehouse.cli.work.rebuild import rebuild_table
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers.avro import envelope_schema, optional, packed
from tests.helpers.forms import Sent
from tests.helpers.lakes import arrive_from_kafka, quiet, rows, settle
from tests.helpers.registry import Served, registry

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
FIRST = [{"name": "id", "type": "int"}, {"name": "old", **optional("string")}]
SECOND = [*FIRST, {"name": "nr", **optional("int")}]
THIRD = [{"name": "id", "type": "long"}, {"name": "nr", **optional("long")}]
SCHEMAS = {1: KEY, 2: envelope_schema(FIRST), 3: envelope_schema(SECOND), 4: envelope_schema(THIRD)}


def table(url: str) -> Table:
    source = {
        "format": "debezium",
        "kafka": {"topic": "s.p.t", "bootstrap_servers": "localhost:9"},
        "value_format": "avro",
        "schema_registry": {"url": url},
    }
    return Table.model_validate({"table": "t", "keys": ["id"], "source": source})


def event(id: int, lsn: int, row: dict[str, Any] | None) -> bytes:
    source = {
        "version": "3", "connector": "postgresql", "name": "s", "ts_ms": lsn, "db": "d",
        "schema": "p", "table": "t", "lsn": lsn, "txId": 1, "snapshot": None, "sequence": None,
    }  # fmt: skip
    op = "d" if row is None else "c"
    value = {"before": None, "after": row, "source": source, "op": op, "ts_ms": lsn}
    return packed(SCHEMAS[id], id, value)


@pytest.mark.slow
def test_three_versions_of_a_schema_come_out_of_order_and_are_rebuilt_without_the_registry(
    lake: Lake,
) -> None:
    values = [
        event(4, 9, {"id": 2**40, "nr": 2**33}),
        event(2, 1, {"id": 1, "old": "a"}),
        event(2, 3, None),
        event(3, 2, {"id": 2, "old": "b", "nr": 5}),
        None,
    ]
    key = packed(KEY, 1, {"id": 1})
    with registry(SCHEMAS) as server:
        of = table(server.url)
        arrive_from_kafka(lake, of, [Sent(key, value, 0) for value in values])
        settle(lake, [of])
    expected = [{"id": 2, "nr": 5, "old": "b"}, {"id": 2**40, "nr": 2**33, "old": None}]

    assert sorted(read_schemas(lake, "t")) == ["1", "2", "3", "4"]
    assert sorted(rows(lake, "t"), key=lambda row: row["id"]) == expected

    rebuild_table(lake, of, quiet, [of])
    assert sorted(rows(lake, "t"), key=lambda row: row["id"]) == expected


@pytest.mark.slow
def test_ids_in_headers_are_asked_and_kept_as_numbers(lake: Lake) -> None:
    """The bare values begin with bytes that would be ids of their own."""
    value, key = event(2, 1, {"id": 1, "old": "a"})[5:], packed(KEY, 1, {"id": 1})[5:]
    ids = {"apicurio.value.globalId": 2**40 + 200, "apicurio.key.contentId": 1}
    headers = [(header, id.to_bytes(8, "big")) for header, id in ids.items()]
    answers = {
        f"/apis/registry/v3/ids/globalIds/{2**40 + 200}": SCHEMAS[2],
        "/apis/registry/v3/ids/contentIds/1": KEY,
    }
    server = Served(answers)
    of = table(server.url)
    sent = [Sent(key, value, 0, [*headers, ("trace", b"x")])]

    arrive_from_kafka(lake, of, sent)
    server.stop()
    settle(lake, [of])
    [kept] = lake.spark.table(lake.name("bronze", "t")).select("_headers").collect()

    assert value[0] == 0
    assert json.loads(kept[0]) == {header: str(id) for header, id in ids.items()} | {"trace": "x"}
    assert sorted(read_schemas(lake, "t")) == ["content:1", f"global:{2**40 + 200}"]
    assert rows(lake, "t") == [{"id": 1, "old": "a"}]


def test_schemas_that_were_read_are_kept_though_another_cannot_be(lake: Lake) -> None:
    values = [event(2, 1, {"id": 1, "old": "a"}), event(3, 2, {"id": 2, "old": "b", "nr": 5})]
    sent = [Sent(packed(KEY, 1, {"id": 1}), value, 0) for value in values]
    with registry({1: KEY, 2: SCHEMAS[2]}) as server, pytest.raises(RegistryFailed):
        arrive_from_kafka(lake, table(server.url), sent)
    assert sorted(read_schemas(lake, "t")) == ["1", "2"]
