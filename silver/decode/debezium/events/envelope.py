"""The parts of a Debezium record: the envelope of before and after, and its schema block.

A record is a plain value, or one wrapped with its schema (`{"schema":…,"payload":…}`).
"""

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, overload

import msgspec
import pyarrow as pa

from lakehouse.config.table import Table
from silver.contract import DELETE, NONE, TRUNCATE, UPSERT
from silver.decode.change import Record
from silver.decode.renames import column_names
from silver.decode.values.json_values import (
    MOST_LEVELS,
    NotJson,
    check_levels,
    parse_json,
    parser_of,
)
from silver.decode.wrapped import trim_text

Row = dict[str, object]

_OPERATIONS = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "t": TRUNCATE, "m": NONE}
_STRUCT, _FIELD = "Struct{", re.compile(r",(\w+)=")
_NO_OBJECT = (b"[", _STRUCT.encode())
_TRANSACTION_STATUSES = ("BEGIN", "END")
_WRAPPER = frozenset(("schema", "payload"))
_VARIABLE_SCALE_DECIMAL = frozenset(("scale", "value"))

OLD_KEY_HEADER = "__debezium.oldkey"

OF_SOURCE = "source."
"""The prefix of a column's origin (`from` in the YAML) that is a member of the source block."""


class SourceBlock(msgspec.Struct, gc=False):
    """Where the connector read a change."""

    connector: object = None
    name: object = None
    snapshot: object = None
    ts_us: object = None
    ts_ns: object = None
    ts_ms: object = None
    txId: object = None  # Debezium's name
    lsn: object = None
    sequence: object = None
    file: object = None
    pos: object = None
    row: object = None
    commit_lsn: object = None
    change_lsn: object = None
    event_serial_no: object = None
    commit_scn: object = None
    ord: object = None
    scn: object = None
    commit_ts: object = None
    step: object = None
    mod_number: object = None
    value_capture_type: object = None
    ts_hlc: object = None
    gtid: object = None
    server_id: object = None
    cluster_id: object = None
    db: object = None
    schema: object = None
    table: object = None


_NO_SOURCE = SourceBlock()
_SIMPLE = {str, int, type(None)}


class SourceColumns(Sequence[SourceBlock]):
    """The source blocks of some events, member by member; a missing one is one without members."""

    def __init__(self, blocks: Sequence[SourceBlock | None]) -> None:
        self.blocks: Sequence[SourceBlock] = [one or _NO_SOURCE for one in blocks]
        self._members: dict[str, list[Any]] = {}
        self._kinds: dict[str, set[type]] = {}

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[SourceBlock]:
        return iter(self.blocks)

    @overload
    def __getitem__(self, at: int) -> SourceBlock: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[SourceBlock]: ...
    def __getitem__(self, at: int | slice) -> SourceBlock | Sequence[SourceBlock]:
        is_all = isinstance(at, slice) and at.indices(len(self)) == (0, len(self), 1)
        return self if is_all else self.blocks[at]

    def take(self, indices: pa.Array) -> "SourceColumns":
        """The blocks at these indices."""
        return SourceColumns([self.blocks[at] for at in indices.to_pylist()])

    def of(self, name: str) -> list[Any]:
        """A member of each block."""
        if name not in self._members:
            self._members[name] = list(map(attrgetter(name), self.blocks))
        return self._members[name]

    def kinds(self, name: str) -> set[type]:
        """The Python types of a member."""
        if name not in self._kinds:
            self._kinds[name] = {*map(type, self.of(name))}
        return self._kinds[name]

    def marks(self, names: Sequence[str], more: Sequence[list[Any]] = ()) -> Sequence[Any]:
        """What tells blocks apart that differ in some of these members, or in columns of texts."""
        varying = [one for one in map(self.of, names) if not _are_one_text(one)]
        if any(not {*map(type, one)} <= _SIMPLE for one in varying):
            return range(len(self.blocks))
        varying = [one for one in (*varying, *more) if one.count(one[0]) < len(one)]
        return list(zip(*varying, strict=True)) or [()] * len(self.blocks)


def _are_one_text(values: Sequence[Any]) -> bool:
    """Whether all values are the same text, or all are null."""
    is_text = values[0] is None or isinstance(values[0], str)
    return is_text and values.count(values[0]) == len(values)


class Transaction(msgspec.Struct, gc=False):
    """A change's transaction, and the place of the change in it."""

    id: object = None
    total_order: object = None


class Envelope(msgspec.Struct, gc=False):
    """A change event, transaction marker, schema change, heartbeat or barrier.

    `pk` is a key without names, which some sources put beside `after`; `resolved`
    is the time before which a changefeed has nothing more to send.
    """

    before: Row | None = None
    after: Row | None = None
    source: SourceBlock | None = None
    transaction: Transaction | None = None
    op: object = None
    pk: object = None
    status: object = None
    ddl: object = None
    resolved: object = None
    ts_us: object = None
    ts_ms: object = None


class _Value(Envelope, gc=False):
    """An envelope, or a schema block with the envelope as its payload."""

    schema: msgspec.Raw = msgspec.Raw()
    payload: Envelope | None = None


_parse_value = parser_of(_Value)


def open_record(record: Record) -> tuple[Envelope | None, bytes | None]:
    """The envelope, None for a log-compaction tombstone, and its schema block's text, if any.

    Raises:
        NotJson: the record is not one JSON object of this shape.
    """
    text = trim_text(record.raw or b"")
    if text in (b"", b"null"):
        return None, None
    value = _parse_value(text)
    block = bytes(value.schema)
    if len(text) - len(block) >= 2 * MOST_LEVELS:  # each level has two brackets
        check_levels(text)
    if block == b"null" and value.payload is None and operation_of(value) is None:
        return None, None  # {"schema":null,"payload":null} is a null
    if not block or block == b"null":
        return value.payload or value, None
    if block[:1] != b"{":
        raise NotJson("the schema is no object")
    return (None, None) if value.payload is None else (value.payload, block)


def operation_of(envelope: Envelope) -> str | None:
    """The operation of an envelope; None for an unknown one."""
    op = envelope.op
    if isinstance(op, str):
        return _OPERATIONS.get(op)
    has_row = envelope.after is not None or envelope.before is not None
    if op is not None or has_row:
        return None
    if envelope.status in _TRANSACTION_STATUSES:
        return NONE
    others = (envelope.ddl, envelope.ts_ms, envelope.resolved)
    return NONE if any(member is not None for member in others) else None


def key_row(key: bytes | str | None) -> Row | None:
    """A record's key as an object, without its schema block; None for a key that is no object."""
    if key is None:
        return None
    try:
        return _unwrap_object(parse_json(key))
    except NotJson:
        return None


def name_key_values(record: Record, envelope: Envelope, table: Table) -> Row | None:
    """A key that is no JSON object, as values of the table's keys; None where it is none of these.

    An array with one value for each key, the value of an only key, or the text of Kafka Connect's
    StringConverter: `Struct{a=1,b=2}`.
    """
    key = envelope.pk
    if key is None and record.key is not None and record.key.startswith(_NO_OBJECT):
        key = parse_key(record.key)
    if isinstance(key, str) and key.startswith(_STRUCT) and key.endswith("}"):
        return _struct_row(key, table)
    values = key if isinstance(key, list) else [] if key is None else [key]
    fits = len(values) == len(table.keys)
    return dict(zip(table.keys, values, strict=True)) if fits else None


def parse_key(key: bytes) -> object:
    """A record's key as JSON, else its text."""
    try:
        return parse_json(key)
    except NotJson:
        return key.decode("utf-8", "replace")


def _struct_row(text: str, table: Table) -> Row | None:
    """The keys in the text of a struct; None where it has other fields, or one twice."""
    parts = _FIELD.split("," + text[len(_STRUCT) : -1])
    named: Row = dict(zip(parts[1::2], parts[2::2], strict=True))
    fits = {*column_names(table, named)} == {*table.keys}
    return named if fits and len(parts) == 2 * len(table.keys) + 1 else None


def old_key_row(headers: bytes | None) -> Row | None:
    """The key that the row had before a key change, which Debezium writes into a header."""
    if headers is None or OLD_KEY_HEADER.encode() not in headers:
        return None
    header = read_headers(headers).get(OLD_KEY_HEADER)
    return key_row(header) if isinstance(header, str) else _unwrap_object(header)


def read_headers(headers: bytes) -> Row:
    """A record's headers by name, from any JSON that programs write for them.

    It is an object; or a list of `{"key": …, "value": …}`, of `{name: value}`, of
    `[name, value]`, or of names and values in turn. Of two headers with one name the last counts.
    """
    try:
        parsed = parse_json(headers)
    except NotJson:
        return {}
    if isinstance(parsed, dict):
        return _unwrap_object(parsed) or {}
    return _read_header_list(parsed) if isinstance(parsed, list) else {}


def _read_header_list(headers: list[object]) -> Row:
    if headers and isinstance(headers[0], str):
        return {str(name): value for name, value in zip(headers[::2], headers[1::2], strict=False)}
    values: Row = {}
    for header in headers:
        if isinstance(header, dict) and "key" in header:
            values[str(header["key"])] = header.get("value")
        elif isinstance(header, dict):
            values.update(header)
        elif isinstance(header, list) and len(header) == 2:
            values[str(header[0])] = header[1]
    return values


def _unwrap_object(value: object) -> Row | None:
    """The object in `{"schema":…,"payload":…}` or `{"payload":…}`, else the value if it is one."""
    if not isinstance(value, dict):
        return None
    if "payload" not in value or not value.keys() <= _WRAPPER:
        return value
    payload = value["payload"]
    if "schema" in value:
        return payload if isinstance(payload, dict) else None
    is_column = not isinstance(payload, dict) or payload.keys() == _VARIABLE_SCALE_DECIMAL
    return value if is_column else payload
