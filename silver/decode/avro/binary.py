"""Avro's binary encoding, read by the writer's schema.

Logical types are left as they are encoded (days, ticks, two's complement):
`silver.decode.avro.schemas` says what they stand for.
"""

import io
from typing import Any, NamedTuple

import fastavro
from fastavro._read_py import schemaless_reader as python_reader
from fastavro.schema import SchemaParseException

_COMPLEX = ("record", "error", "enum", "fixed", "array", "map")
_KEPT = ("type", "name", "namespace", "symbols", "size")
_NO_SCHEMA = (SchemaParseException, LookupError, TypeError, ValueError, AttributeError)
_NO_VALUE = (EOFError, LookupError, ValueError, OverflowError, MemoryError, RecursionError)


class NotAvro(ValueError):
    """Bytes that are not of the schema, or a schema that is none."""


class Schema(NamedTuple):
    """A schema as fastavro takes it, and whether a type may be within itself."""

    parsed: Any
    recursive: bool


def parse_schema(schema: object) -> Schema:
    """The schema of which `schema` is the parsed JSON.

    Raises:
        NotAvro: it is no schema.
    """
    recursive: list[str] = []
    try:
        bare: Any = _strip_schema(schema, (), recursive)
        parsed = fastavro.parse_schema(bare)
    except (*_NO_SCHEMA, RecursionError) as error:
        raise NotAvro(f"the schema cannot be read: {error}") from None
    return Schema(parsed, bool(recursive))


def read_value(schema: Schema, data: bytes, start: int) -> object:
    """The value that begins at `start` and ends with the bytes.

    Raises:
        NotAvro: the bytes are not one value of the schema.
    """
    # The compiled reader of fastavro does not count how deep it is and ends the whole process.
    read = python_reader if schema.recursive else fastavro.schemaless_reader
    source = io.BytesIO(data)
    source.seek(start)
    try:
        value: object = read(source, schema.parsed, None)
    except _NO_VALUE as error:
        raise NotAvro(str(error)) from None
    if source.tell() != len(data):
        raise NotAvro(f"found {len(data)} bytes, expected {source.tell()}")
    return value


def _strip_schema(schema: object, within: tuple[str, ...], recursive: list[str]) -> object:
    """The schema as far as it shapes the bytes: no logical types, defaults and properties.

    `within` names the records around it; a reference to one of them is added to `recursive`.
    """
    if isinstance(schema, list):
        return [_strip_schema(branch, within, recursive) for branch in schema]
    if not isinstance(schema, dict):
        if str(schema).rpartition(".")[2] in within:
            recursive.append(str(schema))
        return schema
    if schema["type"] not in _COMPLEX:
        return _strip_schema(schema["type"], within, recursive)
    stripped = {name: schema[name] for name in _KEPT if name in schema}
    for part in ("items", "values"):
        if part in schema:
            stripped[part] = _strip_schema(schema[part], within, recursive)
    if "fields" in schema:
        inside = (*within, str(schema["name"]).rpartition(".")[2])
        stripped["fields"] = [
            {"name": field["name"], "type": _strip_schema(field["type"], inside, recursive)}
            for field in schema["fields"]
        ]
    return stripped
