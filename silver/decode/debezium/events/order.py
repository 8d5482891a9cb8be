"""Where a Debezium record stands: its sequence, snapshot, source time and transaction.

The sequence is the position that its connector writes (see `connectors`). Records without one are
in order of partition and offset, or of arrival where they have no offset.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from silver.decode.change import Change, Record
from silver.decode.debezium.events.connectors import (
    Connector,
    connector_of,
    connectors_of,
    has_position,
    hides_commits,
    postgresql_lsn,
    to_microseconds,
)
from silver.decode.debezium.events.envelope import Envelope, SourceBlock, Transaction
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import arrival_sequence, sequence_of

BY_SOURCE, BY_CHANGE, BY_ARRIVAL = "source", "change", "arrival"
"""What the records of a feed are ordered by, as `Columns.order` has it.

By `change`: by positions of changes in PostgreSQL's log, where no record has those of commits.
"""

ORDERS = (BY_SOURCE, BY_CHANGE, BY_ARRIVAL)
"""One record of an earlier one of these is enough to expect all of them so."""

OF_TABLE = "@"
"""In the id of a full snapshot, what stands before the source table of the row."""

_BEFORE_STREAMED = sequence_of(0, 0)
_POSITIONS = ("file", "commit_lsn", "change_lsn", "commit_scn", "scn")
_BIGINT = re.compile(r"[+-]?[0-9]{1,19}")
_TX_ID_AND_LSN = re.compile(r"([0-9]+):[0-9]+")
_LIMIT = 1 << 63
_LAST_ROWS, _INCREMENTAL = ("last", "last_in_data_collection"), "incremental"


_Place = tuple[str | None, int | None, str | None, int | None, str | None, bool]
"""The place of one change in order: what `Places` has of each."""


class Places(NamedTuple):
    """The order of some changes: the fields of `Change` of the same names, one list each."""

    sequence: Sequence[str | None]
    source_time: Sequence[int | None]
    transaction: Sequence[str | None]
    transaction_order: Sequence[int | None]
    snapshot: Sequence[str | None]
    snapshot_last: Sequence[bool | None]


def find_places(
    ops: Sequence[str],
    sources: Sequence[SourceBlock | None],
    transactions: Sequence[Transaction | None],
) -> Places:
    """The places of events; a row that was read without a time of its own has no sequence.

    The envelope's own time, which is not among the events, may be its time.
    """
    events = zip(ops, sources, transactions, connectors_of(sources), strict=True)
    places = [_find_place(*event) for event in events]
    columns = Places(*map(list, zip(*places, strict=True))) if places else Places(*[[]] * 6)
    if "r" not in ops:
        return columns
    times = zip(ops, columns.source_time, columns.sequence, strict=True)
    sequences = [None if op == "r" and not time else text for op, time, text in times]
    return columns._replace(sequence=sequences)


def _find_place(
    op: object,
    source: SourceBlock | None,
    transaction: Transaction | None,
    connector: Connector | None,
) -> _Place:
    """The place of an event.

    The sequence is None where the connector's position is missing or malformed, and where there
    is none at all: `arrival_order` is for records without one.
    """
    name: str | None = None
    order: object = 0
    count: int | None = None
    if transaction is not None:
        name, count = _transaction_name(transaction.id), _parse_bigint(transaction.total_order)
        order = 0 if transaction.total_order is None else transaction.total_order
    if source is None:
        return None, None, name, count, None, False
    time = to_microseconds(source.ts_us, source.ts_ns, source.ts_ms)
    if name is None and (id := source.txId) is not None:
        name = str(id) if type(id) is int else str(text_of(id))
    if connector is None or connector.position is None:
        sequence = None
    else:
        sequence = connector.position(source, order)
    if op != "r":
        return sequence, time, name, count, None, False
    return _read_place(source, connector, (sequence, time, name, count, None, False))


def _read_place(source: SourceBlock, connector: Connector | None, place: _Place) -> _Place:
    """The place of a row that was read.

    The initial scan of YDB or CockroachDB is no full snapshot: its rows are upserts at their own
    positions, and none is marked as the last. Flink CDC leaves positions empty in the rows of a
    snapshot, or writes the lowest number as PostgreSQL's LSN: such a row stands before everything
    streamed.
    """
    lsn = postgresql_lsn(source)
    lsn = None if lsn is None or text_of(lsn).startswith("-") else lsn
    sequence, time, name, count, _, _ = place
    if sequence is None and lsn is None and connector is not None:
        is_empty = all(getattr(source, member) in (None, "") for member in _POSITIONS)
        sequence = _BEFORE_STREAMED if is_empty else None
    if connector is not None and connector.scans:
        return sequence, time, name, count, None, False
    snapshot = None if source.snapshot == _INCREMENTAL else _snapshot_id(source, lsn, sequence)
    return sequence, time, name, count, snapshot, source.snapshot in _LAST_ROWS


def ordered_change(envelope: Envelope, operation: str | None) -> Change:
    """A change of this operation with its place in order, without values yet.

    A row that was read without a time of its own has the envelope's.
    """
    source = envelope.source
    sequence, time, name, count, snapshot, is_last = _find_place(
        envelope.op, source, envelope.transaction, None if source is None else connector_of(source)
    )
    if source is None or (envelope.op == "r" and not time):
        time = to_microseconds(envelope.ts_us, None, envelope.ts_ms)
    change = Change(operation, (), sequence, source_time=time, transaction=name)
    change.transaction_order, change.snapshot, change.snapshot_last = count, snapshot, is_last
    return change


def handled_at(record: Record, envelope: Envelope) -> int | None:
    """When the connector handled the change, else the record's own time, in microseconds."""
    handled = to_microseconds(envelope.ts_us, None, envelope.ts_ms)
    return record.timestamp if handled is None else handled


def arrival_order(record: Record) -> str:
    """The sequence of a record without a position: before every one that has a position.

    It is the place in the topic: partition and offset. A record without an offset stands where it
    arrived.
    """
    by_offset = sequence_of(0, record.partition or 0, record.offset)
    return by_offset or arrival_sequence(record.arrival)


def order_shown(source: SourceBlock | None) -> str:
    """What a record is ordered by that has this source block."""
    if not has_position(source):
        return BY_ARRIVAL
    return BY_CHANGE if source is not None and hides_commits(source) else BY_SOURCE


def _snapshot_id(source: SourceBlock, lsn: object, sequence: str | None) -> str | None:
    """The id of the full snapshot a row was read by; only `op` r counts, not `source.snapshot`.

    Rows of an incremental snapshot belong to none: they are upserts at their LSN.
    """
    place = sequence if lsn is None else text_of(lsn)
    if place is None:
        return None
    name = "" if source.name is None else text_of(source.name)
    return f"{name}:{place}{_table_mark(source)}"


def _table_mark(source: SourceBlock) -> str:
    """What stands in the id of a snapshot behind its place; empty without a table."""
    parts = source.db, source.schema, source.table
    try:
        return _mark_of(*parts)
    except TypeError:  # no names
        return _mark_of(*[None if part is None else text_of(part) for part in parts])


@lru_cache(maxsize=64)
def _mark_of(*parts: object) -> str:
    table = ".".join([text_of(part) for part in parts if part is not None])
    return f"{OF_TABLE}{table}" if table else ""


def _transaction_name(id: object) -> str | None:
    """The transaction; of PostgreSQL's `txId:lsn`, whose end differs within one, the first part."""
    if id is None:
        return None
    text = str(text_of(id))
    pair = _TX_ID_AND_LSN.fullmatch(text)
    return pair[1] if pair else text


def _parse_bigint(value: object) -> int | None:
    if type(value) is not int:
        text = "" if value is None else text_of(value).strip()
        value = int(text) if _BIGINT.fullmatch(text) else _LIMIT
    return value if -_LIMIT <= value < _LIMIT else None
