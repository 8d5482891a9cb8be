"""Debezium records written in a test or captured, and what they are decoded to, without Spark."""

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import Columns, Shape, known_columns
from silver.decode.debezium.discovery import DebeziumDiscovery
from silver.decode.wrapped import value_inside
from tests.helpers.flat_records import decode_records

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Types = Mapping[str, T.DataType]


def table(
    keys: tuple[str, ...] = ("id",), source: Mapping[str, object] | None = None, **options: object
) -> Table:
    """A table of Debezium records; `source` adds to its source's options."""
    feed = {"format": "debezium", "path": "shop", **(source or {})}
    given = {"columns": {"id": "bigint", "name": "string"}} | options
    return Table.model_validate({"table": "t", "keys": list(keys), "source": feed, **given})


def event(op: str | None, /, **parts: object) -> dict[str, Any]:
    """A change event of PostgreSQL's connector."""
    source = {"connector": "postgresql", "name": "shop", "lsn": 10, "ts_us": 5_000_000}
    return {"before": None, "after": None, "source": source, "op": op} | parts


def block(*fields: str | dict[str, Any], type: str = "int64") -> dict[str, Any]:
    """A schema block: `id` is of the type, fields given by name are texts."""
    columns = [
        f if isinstance(f, dict) else {"field": f, "type": type if f == "id" else "string"}
        for f in fields
    ]
    return {"type": "struct", "fields": [{"field": "after", "fields": columns}]}


def wrapped(value: object, *fields: str | dict[str, Any], **options: str) -> dict[str, Any]:
    """A value with its schema block."""
    return {"schema": block(*fields, **options), "payload": value}


def plain(*lines: object) -> list[Record]:
    """Values dropped as lines of a file; text and bytes are taken as they are, the rest as JSON."""
    return [_record(at, _bytes(line)) for at, line in enumerate(lines)]


def whole(*records: Mapping[str, Any]) -> list[Record]:
    """Whole records dropped as lines of a file."""
    return [_with_origin(at, record, _json(record), True) for at, record in enumerate(records)]


def from_kafka(*records: Mapping[str, Any]) -> list[Record]:
    """The same records read from Kafka: the value alone is the raw text."""
    return [
        _with_origin(at, record, _json(record["value"]), False) for at, record in enumerate(records)
    ]


def discovered(
    of: Table, records: Iterable[Record], learned: Types | None = None
) -> tuple[Columns, list[Shape]]:
    """The columns and shapes that the records show; their positions are their numbers."""
    discovery = DebeziumDiscovery(of, known_columns(of, learned or {}))
    for at, record in enumerate(records):
        discovery.look(record, str(at))
    return discovery.settle()


def decoded_with(of: Table, columns: Columns, records: Iterable[Record]) -> list[dict[str, Any]]:
    """Each change as one dictionary: its columns by name, then the change's fields with `_`."""
    changes = decode_records(of, columns, records)
    return [_row(columns, change) for change in changes]


def decoded(of: Table, records: list[Record], learned: Types | None = None) -> list[dict[str, Any]]:
    """The records decoded by all that they show themselves."""
    return decoded_with(of, discovered(of, records, learned)[0], records)


def _row(columns: Columns, change: Any) -> dict[str, Any]:
    pairs = zip(columns.columns, change.values, strict=True)
    own = {column.name: _python(value, column.type) for column, value in pairs}
    told = {f"_{name}": value for name, value in vars(change).items() if name != "values"}
    return own | told


def _python(value: Any, type: T.DataType) -> Any:
    """A value as Spark's rows have it in Python."""
    if isinstance(value, int) and isinstance(type, T.DateType):
        return date(1970, 1, 1) + timedelta(days=value)
    if isinstance(value, int) and isinstance(type, T.TimestampType | T.TimestampNTZType):
        return (EPOCH + timedelta(microseconds=value)).replace(tzinfo=None)
    return value


def _with_origin(at: int, record: Mapping[str, Any], raw: bytes | None, inside: bool) -> Record:
    made = _record(at, value_inside(raw) if inside and raw else raw)
    made.key, made.headers = _json(record.get("key")), _json(record.get("headers"))
    made.topic, made.partition = record.get("topic"), record.get("partition")
    made.offset = record.get("offset")
    return made


def _record(at: int, raw: bytes | None) -> Record:
    return Record(raw, None, None, None, None, None, None, 0, f"{at:020d}")


def _bytes(line: object) -> bytes | None:
    if isinstance(line, str):
        return line.encode("utf-8", "surrogateescape")
    return line if isinstance(line, bytes) else _json(line)


def _json(value: object) -> bytes | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
