"""Flattened events: what Debezium's ExtractNewRecordState leaves of an envelope.

A flattened event is the row alone, with members of the envelope beside the columns where
`add.fields` names them: `__op`, `__lsn`, `__source_ts_ms`; or in the record's headers with
`add.headers`. A delete is the old row with `__deleted`, or a log-compaction tombstone, by the
transform's delete handling mode. The row becomes an envelope again here, so that it is decoded by
the same rules as a full one.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakehouse.config.table import Table
from silver.decode.change import Change, Record
from silver.decode.debezium.events.connectors import to_microseconds
from silver.decode.debezium.events.envelope import (
    Envelope,
    SourceBlock,
    SourceColumns,
    Transaction,
    key_row,
    parse_key,
    read_headers,
)
from silver.decode.debezium.events.order import Places, ordered_change
from silver.decode.renames import column_names
from silver.decode.values.json_values import NotJson, parse_json
from silver.decode.values.sequences import sequence_of, topic_sequence
from silver.decode.wrapped import holds_rows

PREFIX = "__"
_DELETED, _TRUE = "__deleted", ("true", "t", "1")
_OF_SOURCE = frozenset(SourceBlock.__struct_fields__)
_OF_ENVELOPE = frozenset(("op", "ts_ms", "ts_us"))
_OF_TRANSACTION = {
    "transaction_id": "id",
    "transaction_total_order": "total_order",
    "total_order": "total_order",
}
_NAMES = frozenset(
    PREFIX + name
    for name in (
        *("deleted", "table", "db", "schema", "collection"),
        *_OF_ENVELOPE, *_OF_TRANSACTION, *_OF_SOURCE, *(f"source_{n}" for n in _OF_SOURCE),
        *("source_db", "source_schema", "source_table", "source_collection", "source_version"),
    )
)  # fmt: skip
_ENVELOPES = (
    frozenset(("op", "after")),
    frozenset(("op", "before")),
    frozenset(("after", "source")),
)
_SCHEMA_CHANGES = (frozenset(("ddl", "tableChanges")), frozenset(("ddl", "databaseName")))
_NOTIFICATION = frozenset(("id", "aggregate_type", "type", "additional_data", "timestamp"))
_ENDS = ("BEGIN", "END")
_OF_MARKERS = frozenset(("ts_ms", "ts_us", "ts_ns", "status", "ddl", "resolved"))

_Columns = Sequence[Sequence[Any]]
"""The values of rows by name, in the order of their names."""


def event_of(row: dict[str, object] | None, record: Record) -> tuple[Envelope, bool]:
    """The flattened event of a record as the envelope it came from; without a row it is a delete.

    It has the row in `after`, or of a delete in `before`; and the members of `add.fields`. Besides,
    whether deletes come as rows in this feed: tombstones then mean nothing.
    """
    headers = added_headers(record.headers) if record.headers else {}
    if row is None:
        envelope = _with_members(Envelope(op="d"), headers)
        envelope.op, envelope.pk = "d", _bare_key(record.key)
        return envelope, False
    envelope = _with_members(Envelope(), headers | row)
    flag = row.get(_DELETED)
    fields = {name: value for name, value in row.items() if not name.startswith(PREFIX)}
    if "_id" in fields:
        _name_document(fields, record.key)
    if envelope.op == "d" or str(flag).lower() in _TRUE:
        envelope.op, envelope.before = "d", fields
    else:
        envelope.op = "u" if envelope.op is None else envelope.op
        envelope.after = fields
    envelope.pk = _bare_key(record.key)
    return envelope, flag is not None


class AddedMembers:
    """The members that the transform adds to the rows of one shape, which has these names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._at = {name: at for at, name in enumerate(names)}
        self._source: list[tuple[str, int]] = []
        self._transaction: list[tuple[str, int]] = []
        for name, at in self._at.items():
            added = name.removeprefix(PREFIX)
            of_source = added.removeprefix("source_")
            if added == name or added in _OF_ENVELOPE:
                continue
            if added in _OF_TRANSACTION:
                self._transaction.append((_OF_TRANSACTION[added], at))
            elif of_source in _OF_SOURCE:
                self._source.append((of_source, at))
        members = [name for name, _ in (*self._source, *self._transaction)]
        odd = {"_id", "payload", "status"} & {*names}
        self.are_plain = (
            len({*members}) == len(members) and not odd and not is_other(dict.fromkeys(names))
        )

    def operations(self, columns: _Columns) -> Sequence[Any]:
        """The operation of each row; a missing one is an update."""
        ops, flags = self._column_of(columns, "op"), self._column_of(columns, "deleted")
        gone = {flag: str(flag).lower() in _TRUE for flag in {*map(str, flags)}}
        if not any(gone.values()):
            return ["u" if op is None else op for op in ops]
        return [
            "d" if gone[str(flag)] else "u" if op is None else op
            for op, flag in zip(ops, flags, strict=True)
        ]

    def sources(self, columns: _Columns) -> Sequence[SourceBlock | None]:
        """The source block of each row; None where no member of it has a value."""
        return _build_structs(SourceBlock, self._source, columns)

    def transactions(self, columns: _Columns) -> Sequence[Transaction | None]:
        """The transaction of each row."""
        return _build_structs(Transaction, self._transaction, columns)

    def order(
        self,
        columns: _Columns,
        sources: SourceColumns,
        places: Places,
        in_topic: tuple[Sequence[int | None], ...],
    ) -> Places:
        """The places of the rows in order, by the rules of `ordered_event`.

        `in_topic` are the times, partitions and offsets of their records.
        """
        times = places.source_time.to_pylist()
        if places.source_time.null_count:
            ticks = (self._column_of(columns, name) for name in ("ts_us", "ts_ms"))
            parts = zip(times, in_topic[0], *ticks, strict=True)
            times = [_sent_time(*sent) if time is None else time for time, *sent in parts]
        flags = self._column_of(columns, "deleted")
        texts, orders = places.sequence.to_pylist(), map(topic_sequence, *in_topic)
        given = zip(texts, times, orders, flags, strict=True)
        sequences, count = [_choose_sequence(*one) for one in given], len(times)
        return places._replace(
            sequence=pa.array(sequences, pa.string()),
            source_time=pa.array(times, pa.int64()),
            snapshot=pa.nulls(count, pa.string()),
            snapshot_last=pa.repeat(False, count),
        )

    def _column_of(self, columns: _Columns, name: str) -> Sequence[Any]:
        at = self._at.get(PREFIX + name)
        return [None] * len(columns[0]) if at is None else columns[at]


def _build_structs(
    make: Callable[..., Any], members: Sequence[tuple[str, int]], columns: _Columns
) -> list[Any]:
    if not members:
        return [None] * len(columns[0])
    names = [name for name, _ in members]
    rows = zip(*[columns[at] for _, at in members], strict=True)
    return [
        None if row.count(None) == len(names) else make(**dict(zip(names, row, strict=True)))
        for row in rows
    ]


def _sent_time(stamp: int | None, us: object, ms: object) -> int | None:
    """When a row was sent, else the record's own time."""
    return to_microseconds(us, None, ms) or stamp


def _choose_sequence(
    text: str | None, time: int | None, in_topic: str | None, flag: object
) -> str | None:
    if in_topic is not None and (flag is None or text is None):
        return in_topic
    return sequence_of(0, time or 0) if text is None else text


def is_flattened(row: Mapping[str, object], table: Table, record: Record) -> bool:
    """Whether an object shows by its members that it is a flattened event.

    It has a member that the transform adds, or it has all key columns together with the record's
    key. An object of another program can have an `id` too, which is no key of a row; and an object
    of nothing but the key is a key that was written down as a value.
    """
    if is_other(row):
        return False
    if has_added_members(row):
        return True
    fields = column_names(table, {*row, *(key_row(record.key) or ())})
    has_keys = bool(table.keys) and table.key_names <= {name.lower() for name in fields}
    return has_keys and not is_key_alone(row, table, record)


def is_key_alone(row: Mapping[str, object], table: Table, record: Record) -> bool:
    """Whether an object has no member but keys of the table, and its record has no key."""
    if record.key is not None:
        return False
    return {name.lower() for name in column_names(table, row)} <= table.key_names


def is_other(row: Mapping[str, object]) -> bool:
    """Whether an object is an envelope, of Debezium or of another program, or a marker."""
    names = row.keys()
    return any(form <= names for form in _ENVELOPES) or holds_rows(row) or is_marker(row)


def is_marker(row: Mapping[str, object]) -> bool:
    """Whether an object is a transaction marker, schema change, heartbeat or notification."""
    names = row.keys()
    return (
        is_notification(row)
        or any(form <= names for form in _SCHEMA_CHANGES)
        or (row.get("status") in _ENDS and not {"ts_ms", "event_count"}.isdisjoint(row))
        or (bool(names) and names <= _OF_MARKERS)
    )


def is_notification(row: Mapping[str, object]) -> bool:
    """Whether an object is about the connector's own work, such as a snapshot that it begins."""
    return row.keys() | {"timestamp"} == _NOTIFICATION


def has_added_members(row: Mapping[str, object]) -> bool:
    """Whether a row has members that the transform adds."""
    return not _NAMES.isdisjoint(row)


def ordered_event(
    envelope: Envelope, rewrites: bool, record: Record, operation: str | None
) -> Change:
    """A change of this operation with its place in order, without values yet.

    Tombstones have no position at the source, so the events of such a feed are ordered by their
    place in the topic. In a feed whose deletes are rows, or without offsets, the position at the
    source counts; a tombstone there says nothing.
    Without either the time at the source counts, and arrival decides between equal ones.
    """
    change = ordered_change(envelope, operation)
    change.snapshot, change.snapshot_last = None, False  # no event marks the snapshot's last row
    if change.source_time is None:
        change.source_time = _sent_time(record.timestamp, envelope.ts_us, envelope.ts_ms)
    in_topic = topic_sequence(record.timestamp, record.partition, record.offset)
    given = change.sequence, change.source_time, in_topic
    change.sequence = _choose_sequence(*given, rewrites or None)
    return change


def added_headers(headers: bytes) -> dict[str, object]:
    """The members that `add.headers` puts into a record's headers, by their names."""
    if PREFIX.encode() not in headers:
        return {}
    values = read_headers(headers)
    return {name: _header_value(v) for name, v in values.items() if name.startswith(PREFIX)}


def _header_value(value: object) -> object:
    """A header's value; its converter may have written it as JSON, with or without a schema."""
    if isinstance(value, str) and value[:1] in ('"', "{"):
        try:
            value = parse_json(value)
        except NotJson:
            return value
    return value["payload"] if isinstance(value, dict) and "payload" in value else value


def _with_members(envelope: Envelope, members: Mapping[str, object]) -> Envelope:
    """Sets the envelope's members, source and transaction from the transform's members."""
    prefixed = {n: v for n, v in members.items() if n.startswith(PREFIX) and v is not None}
    for name in _OF_ENVELOPE & {name.removeprefix(PREFIX) for name in prefixed}:
        setattr(envelope, name, prefixed[PREFIX + name])
    if prefixed:
        added, columns = _added_members(tuple(prefixed)), [[value] for value in prefixed.values()]
        [envelope.source] = added.sources(columns)
        [envelope.transaction] = added.transactions(columns)
    return envelope


_added_members = lru_cache(maxsize=256)(AddedMembers)


def _name_document(row: dict[str, object], key: bytes | None) -> None:
    """Calls MongoDB's `_id` by the name `id`, and a field `id` of the document `id_source`.

    Rows of other databases may have both columns: a record's key shows that `_id` is the key.
    """
    if "id" not in row or (key_row(key) or {}).get("id") == row["_id"] != row["id"]:
        if "id" in row:
            row["id_source"] = row["id"]
        row["id"] = row["_id"]


def _bare_key(key: bytes | None) -> object:
    """A record's key that is no object, such as ExtractField leaves; None for any other."""
    parsed = None if key is None else parse_key(key)
    if isinstance(parsed, dict) and parsed.keys() == {"schema", "payload"}:
        parsed = parsed["payload"]
    return None if isinstance(parsed, dict) else parsed
