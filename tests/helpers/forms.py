"""The changes of one table in every form that Debezium can leave them in, as records of Kafka.

Full envelopes, and what ExtractNewRecordState makes of them by its delete modes and `add.fields`;
plain, wrapped with their schema, and as Avro.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tests.helpers.avro import envelope_schema, optional, packed, row_schema

Given = dict[str, Any]
Headers = list[tuple[str, bytes]]

FIRST_LSN, FIRST_MS = 1000, 1_770_000_000_000
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "price": "decimal(10,2)",
    "day": "date",
    "made": "timestamp_ntz",
}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_AVRO_FIELDS: list[Given] = [
    {"name": "id", "type": "long"},
    {"name": "name", **optional("string")},
    {"name": "price", **optional(_DECIMAL)},
    {"name": "day", **optional({"type": "int", "connect.name": "io.debezium.time.Date"})},
    {
        "name": "made",
        **optional({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}),
    },
]
_CONNECT_FIELDS: list[Given] = [
    {"field": "id", "type": "int64"},
    {"field": "name", "type": "string"},
    {
        "field": "price",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    {"field": "made", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
]
_ADDED: list[Given] = [
    {"name": "__op", **optional("string")},
    {"name": "__lsn", **optional("long")},
    {"name": "__source_ts_ms", **optional("long")},
]
_DELETED: Given = {"name": "__deleted", **optional("string")}
KEY_ID, KEY = 1, {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
SCHEMAS: dict[int, Given] = {
    KEY_ID: KEY,
    2: envelope_schema(_AVRO_FIELDS),
    3: row_schema([*_AVRO_FIELDS, *_ADDED]),
    4: row_schema([*_AVRO_FIELDS, *_ADDED, _DELETED]),
}


class Change(NamedTuple):
    """A change at the source: the row after it, or of a delete before it."""

    at: int
    op: str
    row: Given

    @property
    def lsn(self) -> int:
        return FIRST_LSN + self.at

    @property
    def ms(self) -> int:
        return FIRST_MS + 1000 * self.at


class Sent(NamedTuple):
    """A record of Kafka; `ms` is its timestamp."""

    key: bytes
    value: bytes | None
    ms: int
    headers: Headers | None = None


def row(id: int, name: str, price: bytes | None = b"\x04\x1a", day: int = 20370) -> Given:
    made = None if id % 2 else 1_760_000_000_123_456
    return {"id": id, "name": name, "price": price, "day": day, "made": made}


CHANGES = [
    Change(at, op, row(*values))
    for at, (op, *values) in enumerate(
        [
            ("c", 1, "Ada"),
            ("c", 2, "Bo"),
            ("c", 3, "Cy", None),
            ("u", 1, "Ada L"),
            ("d", 2, "Bo"),
            ("u", 3, "Cy", b"\xff"),
            ("c", 2, "Bo again"),
            ("d", 1, "Ada L"),
            ("u", 2, "Bo again", b"\x01", 0),
        ]
    )
]
FORMS: dict[str, Callable[[Iterable[Change]], Iterator[Sent]]] = {}


def _form(name: str) -> Callable[[Any], Any]:
    def add(make: Callable[[Change], Iterator[Sent]]) -> Any:
        FORMS[name] = lambda changes: (sent for change in changes for sent in make(change))
        return make

    return add


@_form("full")
def _full(change: Change) -> Iterator[Sent]:
    yield Sent(_json_key(change), _json(_envelope(change, _in_json)), change.ms)
    yield from _tombstone(change)


@_form("full_wrapped")
def _full_wrapped(change: Change) -> Iterator[Sent]:
    rows = [{"field": part, "fields": _CONNECT_FIELDS} for part in ("before", "after")]
    schema = {"type": "struct", "fields": rows}
    yield Sent(_json_key(change), _wrapped(schema, _envelope(change, _in_json)), change.ms)
    yield from _tombstone(change)


@_form("full_avro")
def _full_avro(change: Change) -> Iterator[Sent]:
    source = {"version": "3", "db": "d", "schema": "public", "table": "t", "snapshot": "false"}
    value = _envelope(change, dict)
    value["source"] |= source
    yield Sent(_avro_key(change), packed(SCHEMAS[2], 2, value), change.ms)
    yield from _tombstone(change, _avro_key(change))


@_form("flattened_tombstone")
def _flattened(change: Change) -> Iterator[Sent]:
    """`tombstone`, and `drop` of old with tombstones: a delete is a tombstone alone."""
    if change.op != "d":
        yield Sent(_json_key(change), _json(_in_json(change.row) | _added(change)), change.ms)
    yield from _tombstone(change)


@_form("flattened_none")
def _flattened_none(change: Change) -> Iterator[Sent]:
    """`none` of old: a delete is a record without a value, and the tombstone follows."""
    yield from _flattened(change)
    yield from _tombstone(change)


@_form("flattened_bare")
def _flattened_bare(change: Change) -> Iterator[Sent]:
    """Without `add.fields`."""
    if change.op != "d":
        yield Sent(_json_key(change), _json(_in_json(change.row)), change.ms)
    yield from _tombstone(change)


@_form("flattened_rewrite")
def _rewritten(change: Change) -> Iterator[Sent]:
    value = _in_json(change.row) | _added(change) | _deleted(change)
    yield Sent(_json_key(change), _json(value), change.ms)


@_form("flattened_rewrite_with_tombstone")
def _rewritten_with_tombstone(change: Change) -> Iterator[Sent]:
    yield from _rewritten(change)
    yield from _tombstone(change)


@_form("flattened_delete_to_tombstone")
def _delete_to_tombstone(change: Change) -> Iterator[Sent]:
    """A delete is a tombstone; what `add.headers` names is in the headers of every record."""
    told = {"__op": change.op, "__source_ts_ms": str(change.ms)}
    headers = [(name, text.encode()) for name, text in told.items()]
    value = None if change.op == "d" else _json(_in_json(change.row))
    yield Sent(_json_key(change), value, change.ms + 500, headers)


@_form("flattened_rewrite_wrapped")
def _rewritten_wrapped(change: Change) -> Iterator[Sent]:
    value = _in_json(change.row) | _added(change) | _deleted(change)
    yield Sent(_json_key(change), _wrapped({"fields": _CONNECT_FIELDS}, value), change.ms)


@_form("flattened_tombstone_avro")
def _flattened_avro(change: Change) -> Iterator[Sent]:
    if change.op != "d":
        value = packed(SCHEMAS[3], 3, change.row | _added(change))
        yield Sent(_avro_key(change), value, change.ms)
    yield from _tombstone(change, _avro_key(change))


@_form("flattened_rewrite_avro")
def _rewritten_avro(change: Change) -> Iterator[Sent]:
    value = packed(SCHEMAS[4], 4, change.row | _added(change) | _deleted(change))
    yield Sent(_avro_key(change), value, change.ms)
    yield from _tombstone(change, _avro_key(change))


def _envelope(change: Change, written: Callable[[Given], Given]) -> Given:
    source = {"connector": "postgresql", "name": "shop", "lsn": change.lsn, "ts_ms": change.ms}
    gone = change.op == "d"
    before, after = (written(change.row), None) if gone else (None, written(change.row))
    return {"before": before, "after": after, "source": source, "op": change.op}


def _added(change: Change) -> Given:
    return {"__op": change.op, "__lsn": change.lsn, "__source_ts_ms": change.ms}


def _deleted(change: Change) -> Given:
    return {"__deleted": "true" if change.op == "d" else "false"}


def _tombstone(change: Change, key: bytes | None = None) -> Iterator[Sent]:
    if change.op == "d":
        yield Sent(key or _json_key(change), None, change.ms)


def _in_json(row: Given) -> Given:
    price = row["price"]
    return row | {"price": price and base64.b64encode(price).decode()}


def _json_key(change: Change) -> bytes:
    return _json({"id": change.row["id"]})


def _avro_key(change: Change) -> bytes:
    return packed(KEY, KEY_ID, {"id": change.row["id"]})


def _wrapped(schema: Given, payload: Given) -> bytes:
    return _json({"schema": {"type": "struct"} | schema, "payload": payload})


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
