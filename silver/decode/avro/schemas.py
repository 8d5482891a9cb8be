"""Avro schemas as Kafka Connect writes them: decodes values, and builds Connect's schema blocks."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from bronze.contract import Part, avro_schema_id
from silver.decode.avro.binary import NotAvro, Schema, parse_schema, read_value
from silver.decode.change import Record

UNDECLARED_AVRO = (
    "found Avro in Confluent's wire format, expected JSON: say source.value_format: avro and "
    "source.schema_registry"
)

_TYPES = {"int": "int32", "long": "int64", "record": "struct", "fixed": "bytes", "enum": "string"}
"""Kafka Connect's types of Avro's, where their names differ."""
_CONNECT, _TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
_CONNECT_NAMES = {
    "decimal": _CONNECT + "Decimal",
    "date": _CONNECT + "Date",
    "time-millis": _CONNECT + "Time",
    "time-micros": _TIME + "MicroTime",
    "timestamp-millis": _CONNECT + "Timestamp",
    "timestamp-micros": _TIME + "MicroTimestamp",
    "timestamp-nanos": _TIME + "NanoTimestamp",
    "local-timestamp-millis": _TIME + "Timestamp",
    "local-timestamp-micros": _TIME + "MicroTimestamp",
    "local-timestamp-nanos": _TIME + "NanoTimestamp",
}
_MOST_SCHEMAS = 1_024


class Writer(NamedTuple):
    """The writer schema of a record, as Avro calls the schema that a value was written with.

    Attributes:
        text: the schema's JSON.
        schema: the parsed schema.
        is_envelope: whether it is of a Debezium envelope: `op`, and rows that are structs or text.
        has_documents: whether the rows in that envelope are JSON text, as MongoDB's documents are.
    """

    text: bytes
    schema: Schema
    is_envelope: bool
    has_documents: bool


AvroValue = tuple[object, Writer]
"""A decoded value, and the schema that wrote it."""


def avro_value(record: Record, schemas: Mapping[str, str]) -> AvroValue:
    """The value of a record, decoded if it is not parsed already; `schemas` are by id.

    Raises:
        NotAvro: as `decode_avro` does.
    """
    if isinstance(record.value, tuple):
        return record.value
    return decode_avro(record.raw or b"", schemas, record.headers)


def decode_avro(
    data: bytes, schemas: Mapping[str, str], headers: bytes | None, part: Part = "value"
) -> AvroValue:
    """The key or value of a record with these headers; `schemas` are the registry's, by id.

    Raises:
        NotAvro: the bytes name no schema or an unknown one, or do not fit theirs.
    """
    id_and_start = avro_schema_id(data, part, headers)
    if id_and_start is None:
        raise NotAvro("found bytes without the id of a schema in front")
    id, start = id_and_start
    if id not in schemas:
        raise NotAvro(f"found schema {id}, which bronze does not keep")
    writer = writer_of(schemas[id])
    try:
        return read_value(writer.schema, data, start), writer
    except NotAvro as error:
        raise NotAvro(f"the bytes are not of schema {id}: {error}") from None


@lru_cache(_MOST_SCHEMAS)
def writer_of(text: str) -> Writer:
    """Parses the JSON text of a writer schema.

    Raises:
        NotAvro: it is no Avro schema.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise NotAvro("the schema is no JSON") from None
    named: dict[str, object] = {}
    _collect_types(schema, named)
    kinds = {name: _build_block(type, named).get("type") for name, type in _list_fields(schema)}
    rows = {kind for name, kind in kinds.items() if name in ("before", "after")}
    others = {kind for name, kind in kinds.items() if name in ("source", "transaction")}
    is_envelope = "op" in kinds and len(rows) == 1 and others <= {"struct"}
    return Writer(
        text=text.encode(),
        schema=parse_schema(schema),
        is_envelope=is_envelope and rows <= {"struct", "string"},
        has_documents=is_envelope and rows == {"string"},
    )


def is_avro(block: object) -> bool:
    """Whether a parsed schema is Avro's, and not a schema block of Kafka Connect."""
    return isinstance(block, dict) and block.get("type") == "record"


def connect_block(schema: object) -> Mapping[str, object]:
    """Kafka Connect's schema block for the Avro schema of a record."""
    named: dict[str, object] = {}
    _collect_types(schema, named)
    return _build_block(schema, named)


def _collect_types(schema: object, named: dict[str, object], around: object = None) -> None:
    """Adds a schema's named types (record, enum, fixed) to `named`, also without namespaces.

    A type without a namespace has that of the type `around` it.
    """
    if isinstance(schema, list):
        for branch in schema:
            _collect_types(branch, named, around)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "enum", "fixed"):
            name, around = str(schema.get("name")), schema.get("namespace", around)
            named.setdefault(name, schema)
            named.setdefault(f"{around}.{name}", schema)
            named.setdefault(name.rpartition(".")[2], schema)
        inner = [schema.get("items"), schema.get("values"), schema.get("type")]
        for part in [*inner, *(type for _, type in _list_fields(schema))]:
            if isinstance(part, dict | list):
                _collect_types(part, named, around)


def _list_fields(schema: object) -> Iterator[tuple[str, object]]:
    """The fields of a record's schema: names and schemas."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    for field in fields if isinstance(fields, list) else []:
        if isinstance(field, dict):
            yield str(field.get("name")), field.get("type")


def _resolve_schema(schema: object, named: Mapping[str, object]) -> object:
    """The schema behind a name, a wrapping object or a union with null; other unions are text."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return _resolve_schema(others[0], named) if len(others) == 1 else "string"
    if isinstance(schema, str) and schema in named:
        return _resolve_schema(named[schema], named)
    inner = schema.get("type") if isinstance(schema, dict) else None
    return _resolve_schema(inner, named) if isinstance(inner, dict | list) else schema


def _build_block(schema: object, named: Mapping[str, object], depth: int = 0) -> dict[str, object]:
    """The block of an Avro schema; records two or more levels below it have no `fields`."""
    schema = _resolve_schema(schema, named)
    if not isinstance(schema, dict):
        return {"type": _TYPES.get(schema, schema)} if isinstance(schema, str) else {}
    kind, logical = schema.get("type"), schema.get("logicalType")
    block: dict[str, object] = {"type": schema.get("connect.type") or _TYPES.get(str(kind), kind)}
    if name := schema.get("connect.name") or _CONNECT_NAMES.get(str(logical)):
        block["name"] = name
    if logical == "decimal":
        sources = {"scale": ("scale", 0), "connect.decimal.precision": ("precision", 38)}
        block["parameters"] = {
            parameter: str(schema.get(member, default))
            for parameter, (member, default) in sources.items()
        }
    if kind == "array":
        block["items"] = _build_block(schema.get("items"), named, depth + 1)
    if kind == "record" and depth < 2:
        block["fields"] = [
            {"field": name, **_build_block(type, named, depth + 1)}
            for name, type in _list_fields(schema)
        ]
    return block
