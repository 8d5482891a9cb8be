"""Where a Debezium record stands: its sequence, snapshot, source time and transaction.

The sequence is the position that its connector tells (see `connectors`). Records without one are
in order of partition and offset, or of arrival where they have no offset.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from silver.decode.change import Change, Record
from silver.decode.debezium.events.connectors import (
    connector_of,
    microseconds,
    postgresql_lsn,
)
from silver.decode.debezium.events.envelope import Envelope, Source, Transaction
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import arrival_sequence, sequence_of

BY_SOURCE, BY_ARRIVAL = "source", "arrival"
"""What the records of a feed are ordered by, as `Columns.order` has it."""

OF_TABLE = "@"
"""In the id of a full snapshot, what stands before the source table where a key tells it."""

_BEFORE_STREAMED = sequence_of(0, 0)
_POSITIONS = ("file", "commit_lsn", "change_lsn", "commit_scn", "scn")
_BIGINT = re.compile(r"[+-]?[0-9]{1,19}")
_TX_ID_AND_LSN = re.compile(r"([0-9]+):[0-9]+")
_LIMIT = 1 << 63
_LAST_ROWS, _INCREMENTAL = ("last", "last_in_data_collection"), "incremental"


class Events(NamedTuple):
    """The events of some records: one entry per record."""

    ops: Sequence[str]
    sources: Sequence[Source | None]
    transactions: Sequence[Transaction | None]


class Place(NamedTuple):
    """What tells the place of a change in order; the fields of `Change` of the same name."""

    sequence: str | None
    source_time: int | None
    transaction: str | None
    transaction_order: int | None
    snapshot: str | None = None
    snapshot_last: bool = False


class Places(NamedTuple):
    """The places of some changes: one entry per change."""

    sequence: Sequence[str | None]
    source_time: Sequence[int | None]
    transaction: Sequence[str | None]
    transaction_order: Sequence[int | None]
    snapshot: Sequence[str | None]
    snapshot_last: Sequence[bool | None]


def find_places(events: Events) -> Places:
    """The places of events; a row that was read without a time of its own has no sequence.

    The envelope's own time, which is not among the events, may be its time.
    """
    found = [find_place(*one) for one in zip(*events, strict=True)]
    columns = Places(*map(list, zip(*found, strict=True))) if found else Places(*[[]] * 6)
    if "r" not in events.ops:
        return columns
    times = zip(events.ops, columns.source_time, columns.sequence, strict=True)
    sequences = [None if op == "r" and not time else text for op, time, text in times]
    return columns._replace(sequence=sequences)


def find_place(op: object, source: Source | None, transaction: Transaction | None) -> Place:
    """The place of an event.

    The sequence is None where the connector's position is missing or malformed, and where there
    is none at all: `arrival_order` is for records without one. The initial scan of YDB or
    CockroachDB is no full snapshot: its rows are upserts at their own positions, and nothing tells
    the last one.
    """
    name, order = None, None
    if transaction is not None:
        name, order = _transaction_name(transaction.id), transaction.total_order
    if source is None:
        return Place(None, None, name, _bigint(order))
    connector = connector_of(source)
    sequence = None
    if connector is not None and connector.position is not None:
        sequence = connector.position(source, 0 if order is None else order)
    time = microseconds(source.ts_us, source.ts_ns, source.ts_ms)
    if name is None and source.txId is not None:
        name = str(source.txId) if type(source.txId) is int else str(text_of(source.txId))
    order = None if order is None else _bigint(order)
    if op != "r":
        return Place(sequence, time, name, order)
    lsn = _known_lsn(source)
    if sequence is None and connector is not None and lsn is None and _has_no_place(source):
        sequence = _BEFORE_STREAMED
    if connector is not None and connector.scans:
        return Place(sequence, time, name, order)
    snapshot = None if source.snapshot == _INCREMENTAL else _snapshot(source, lsn, sequence)
    return Place(sequence, time, name, order, snapshot, source.snapshot in _LAST_ROWS)


def ordered_change(envelope: Envelope, operation: str | None) -> Change:
    """A change of this operation without values yet, with all that tells its place in order.

    A row that was read without a time of its own has the envelope's.
    """
    source = envelope.source
    place = find_place(envelope.op, source, envelope.transaction)
    change = Change(operation, (), place.sequence)
    change.source_time, change.transaction = place.source_time, place.transaction
    change.transaction_order = place.transaction_order
    change.snapshot, change.snapshot_last = place.snapshot, place.snapshot_last
    if source is None or (envelope.op == "r" and not place.source_time):
        change.source_time = microseconds(envelope.ts_us, None, envelope.ts_ms)
    return change


def handled_at(record: Record, envelope: Envelope) -> int | None:
    """When the connector handled the change, else the record's own time, in microseconds."""
    handled = microseconds(envelope.ts_us, None, envelope.ts_ms)
    return record.timestamp if handled is None else handled


def arrival_order(record: Record) -> str:
    """The sequence of a record without a position: before every one that has a position.

    It is the place in the topic: partition and offset. A record without an offset stands where it
    arrived.
    """
    by_offset = sequence_of(0, record.partition or 0, record.offset)
    return by_offset or arrival_sequence(record.arrival)


def _known_lsn(source: Source) -> object:
    """PostgreSQL's LSN; Flink CDC writes the lowest number where it knows none."""
    lsn = postgresql_lsn(source)
    return None if lsn is None or text_of(lsn).startswith("-") else lsn


def _has_no_place(source: Source) -> bool:
    """Whether a row that was read has an empty position, as Flink CDC leaves it in a snapshot.

    Such a row stands before everything streamed.
    """
    return all(getattr(source, member) in (None, "") for member in _POSITIONS)


def _snapshot(source: Source, lsn: object, sequence: str | None) -> str | None:
    """The id of the full snapshot a row was read by; only `op` r tells, `source.snapshot` does not.

    Rows of an incremental snapshot belong to none: they are upserts at their LSN.
    """
    place = sequence if lsn is None else text_of(lsn)
    name = "" if source.name is None else text_of(source.name)
    return None if place is None else f"{name}:{place}"


def _transaction_name(id: object) -> str | None:
    """The transaction; of PostgreSQL's `txId:lsn`, whose end differs within one, the first part."""
    if id is None:
        return None
    text = str(text_of(id))
    pair = _TX_ID_AND_LSN.fullmatch(text)
    return pair[1] if pair else text


def _bigint(value: object) -> int | None:
    if type(value) is not int:
        text = "" if value is None else text_of(value).strip()
        value = int(text) if _BIGINT.fullmatch(text) else _LIMIT
    return value if -_LIMIT <= value < _LIMIT else None
