"""Avro's binary encoding, read by the writer's schema.

Logical types are left as they are encoded (days, ticks, two's complement):
`silver.decode.avro.schemas` tells what they stand for.
"""

import io
from collections.abc import Callable

import fastavro
from fastavro._read_py import schemaless_reader as python_reader
from fastavro.schema import SchemaParseException

Read = Callable[[bytes, int], object]
"""Takes bytes and a place in them; gives the value that begins there and ends with the bytes."""

_COMPLEX = ("record", "error", "enum", "fixed", "array", "map")
_KEPT = ("type", "name", "namespace", "symbols", "size")
_NO_SCHEMA = (SchemaParseException, LookupError, TypeError, ValueError, AttributeError)
_NO_VALUE = (EOFError, LookupError, ValueError, OverflowError, MemoryError, RecursionError)


class NotAvro(ValueError):
    """Bytes that are not of the schema, or a schema that is none."""


def reader_of(schema: object) -> Read:
    """The function that reads values of a schema, of which `schema` is the parsed JSON.

    Raises:
        NotAvro: it is no schema.
    """
    recursive: list[str] = []
    try:
        parsed = fastavro.parse_schema(_bare(schema, (), recursive))
    except (*_NO_SCHEMA, RecursionError) as error:
        raise NotAvro(f"the schema cannot be read: {error}") from None
    # The compiled reader of fastavro does not count how deep it is and ends the whole process.
    read_one = python_reader if recursive else fastavro.schemaless_reader

    def read(data: bytes, start: int) -> object:
        source = io.BytesIO(data)
        source.seek(start)
        try:
            value: object = read_one(source, parsed, None)
        except _NO_VALUE as error:
            raise NotAvro(str(error)) from None
        if source.tell() != len(data):
            raise NotAvro(f"found {len(data)} bytes, expected {source.tell()}")
        return value

    return read


def _bare(schema: object, within: tuple[str, ...], recursive: list[str]) -> object:
    """The schema with what tells of its bytes only: no logical types, defaults and properties.

    Names of types in `within`, of the records around it, are noted in `recursive`.
    """
    if isinstance(schema, list):
        return [_bare(branch, within, recursive) for branch in schema]
    if not isinstance(schema, dict):
        if str(schema).rpartition(".")[2] in within:
            recursive.append(str(schema))
        return schema
    if schema["type"] not in _COMPLEX:
        return _bare(schema["type"], within, recursive)
    found = {name: schema[name] for name in _KEPT if name in schema}
    for part in ("items", "values"):
        if part in schema:
            found[part] = _bare(schema[part], within, recursive)
    if "fields" in schema:
        inside = (*within, str(schema["name"]).rpartition(".")[2])
        found["fields"] = [
            {"name": field["name"], "type": _bare(field["type"], inside, recursive)}
            for field in schema["fields"]
        ]
    return found
