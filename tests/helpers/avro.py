"""Avro in Confluent's wire format, written by fastavro, and the schemas that Debezium registers."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from silver.decode.change import Record

Fields = list[dict[str, Any]]
SOURCE: Fields = [
    {"name": "version", "type": "string"},
    {"name": "connector", "type": "string"},
    {"name": "name", "type": "string"},
    {"name": "ts_ms", "type": "long"},
    {"name": "snapshot", "type": ["null", "string"], "default": None},
    {"name": "db", "type": "string"},
    {"name": "sequence", "type": ["null", "string"], "default": None},
    {"name": "schema", "type": "string"},
    {"name": "table", "type": "string"},
    {"name": "txId", "type": ["null", "long"], "default": None},
    {"name": "lsn", "type": ["null", "long"], "default": None},
]
TRANSACTION: Fields = [
    {"name": "id", "type": "string"},
    {"name": "total_order", "type": "long"},
    {"name": "data_collection_order", "type": "long"},
]


def optional(type: object) -> dict[str, Any]:
    return {"type": ["null", type], "default": None}


def row_schema(fields: Fields) -> dict[str, Any]:
    return {"type": "record", "name": "Value", "namespace": "shop.public.t", "fields": fields}


def envelope_schema(fields: Fields) -> dict[str, Any]:
    """The schema of a table's change events."""
    source = {"type": "record", "name": "Source", "fields": SOURCE}
    transaction = {"type": "record", "name": "block", "namespace": "event", "fields": TRANSACTION}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.t",
        "fields": [
            {"name": "before", **optional(row_schema(fields))},
            {"name": "after", **optional("Value")},
            {"name": "source", "type": source},
            {"name": "transaction", **optional(transaction)},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", **optional("long")},
        ],
    }


def packed(schema: Mapping[str, Any], id: int, value: object, long: bool = False) -> bytes:
    """A value in the wire format; `long` has an id of 8 bytes."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(without_logic(schema)), value)
    return b"\0" + id.to_bytes(8 if long else 4, "big") + out.getvalue()


def without_logic(schema: Any) -> Any:
    """The schema without logical types, whose values fastavro takes as they are encoded."""
    if isinstance(schema, list):
        return [without_logic(one) for one in schema]
    if isinstance(schema, Mapping):
        return {name: without_logic(v) for name, v in schema.items() if name != "logicalType"}
    return schema


def registered(*schemas: Mapping[str, Any]) -> dict[str, str]:
    """The schemas' texts by id, from 1 on."""
    return {str(id): json.dumps(schema) for id, schema in enumerate(schemas, 1)}


def sent(value: bytes | None, key: bytes | None = None, offset: int = 0) -> Record:
    """A record of a topic."""
    return Record(
        raw=value,
        key=key,
        headers=None,
        topic="shop.public.t",
        partition=0,
        offset=offset,
        timestamp=9_000_000,
        arrived_at=10_000_000,
        arrival=f"{offset:08X}",
    )
