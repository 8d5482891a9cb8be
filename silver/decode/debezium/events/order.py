"""Where a Debezium record stands: its sequence, snapshot, source time and transaction.

The sequence is the position that its connector writes (see `connectors`). Records without one are
in order of their times, partitions and offsets, or of arrival where they have no offset.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from silver.decode.change import Change, Record
from silver.decode.debezium.events.connectors import (
    MOST_MICROSECONDS,
    Connector,
    connector_of,
    connectors_of,
    has_position,
    hides_commits,
    positions_of,
    postgresql_lsn,
    to_microseconds,
)
from silver.decode.debezium.events.envelope import (
    Envelope,
    SourceBlock,
    SourceColumns,
    Transaction,
)
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import arrival_sequence, sequence_of, topic_sequence

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
_OF_SNAPSHOT = ("snapshot", "lsn", "sequence", "name", "db", "schema", "table", *_POSITIONS)
_BIGINT = re.compile(r"[+-]?[0-9]{1,19}")
_TX_ID_AND_LSN = re.compile(r"([0-9]+):[0-9]+")
_LIMIT = 1 << 63
_LAST_ROWS, _INCREMENTAL = ("last", "last_in_data_collection"), "incremental"


_Place = tuple[str | None, int | None, str | None, int | None, str | None, bool]
"""The place of one change in order: what `Places` has of each."""


class Places(NamedTuple):
    """The order of some changes: the fields of `Change` of the same names, one array each."""

    sequence: pa.Array
    source_time: pa.Array
    transaction: pa.Array
    transaction_order: pa.Array
    snapshot: pa.Array
    snapshot_last: pa.Array


def find_places(
    ops: Sequence[str], sources: SourceColumns, transactions: Sequence[Transaction | None]
) -> Places:
    """The places of events; a row that was read without a time of its own has no sequence.

    The envelope's own time, which is not among the events, may be its time.
    """
    count = len(ops)
    names, counts, orders = _find_transactions(sources, transactions)
    sequences, times = positions_of(sources, orders), _find_times(sources)
    of_no_snapshot = pa.nulls(count, pa.string()), pa.repeat(False, count)
    places = Places(sequences, times, names, counts, *of_no_snapshot)
    return _find_read_places(ops, sources, places) if "r" in ops else places


def _find_times(sources: SourceColumns) -> pa.Array:
    """The commit times, in microseconds."""
    if sources.kinds("ts_us") == {int}:
        with suppress(OverflowError):
            times = pa.array(sources.of("ts_us"), pa.int64())
            ends = pc.min_max(times).as_py()
            if ends["min"] >= 0 and ends["max"] <= MOST_MICROSECONDS:
                return times
    ticks = map(sources.of, ("ts_us", "ts_ns", "ts_ms"))
    return pa.array([*map(to_microseconds, *ticks)], pa.int64())


def _find_transactions(
    sources: SourceColumns, transactions: Sequence[Transaction | None]
) -> tuple[pa.Array, pa.Array, Sequence[object]]:
    """The names of the transactions, and the places in them: parsed, and as they are."""
    count, is_bare = len(transactions), transactions.count(None) == len(transactions)
    if is_bare and sources.kinds("txId") <= {int, type(None)}:
        with suppress(OverflowError):
            names = pa.array(sources.of("txId"), pa.int64()).cast(pa.string())
            return names, pa.nulls(count, pa.int64()), [0] * count
    given = map(_find_transaction, sources.blocks, transactions)
    names, counts, orders = zip(*given, strict=True) if count else ((),) * 3
    return pa.array(names, pa.string()), pa.array(counts, pa.int64()), orders


def _find_transaction(
    source: SourceBlock | None, transaction: Transaction | None
) -> tuple[str | None, int | None, object]:
    """The transaction of a change, and its place in it: parsed, and as it is."""
    name: str | None = None
    order: object = 0
    count: int | None = None
    if transaction is not None:
        name, count = _transaction_name(transaction.id), _parse_bigint(transaction.total_order)
        order = 0 if transaction.total_order is None else transaction.total_order
    if name is None and source is not None and (id := source.txId) is not None:
        name = str(id) if type(id) is int else str(text_of(id))
    return name, count, order


def _find_read_places(ops: Sequence[str], sources: SourceColumns, places: Places) -> Places:
    """The places of events, some of which are rows that were read; most of these are alike."""
    texts, connectors = places.sequence.to_pylist(), connectors_of(sources)
    names = _OF_SNAPSHOT if places.sequence.null_count else _OF_SNAPSHOT[: -len(_POSITIONS)]
    marks = sources.marks(names, [texts, [*map(id, connectors)]])
    if ops.count("r") < len(ops):
        marks = [mark if op == "r" else None for op, mark in zip(ops, marks, strict=True)]
    lasts = dict(zip(marks, range(len(marks)), strict=True))
    read = [
        (None, None, False)
        if mark is None
        else _read_place(sources.blocks[at], connectors[at], texts[at])
        for mark, at in lasts.items()
    ]
    nth = dict(zip(lasts, range(len(lasts)), strict=True))
    codes = pa.array([nth[mark] for mark in marks], pa.int64())
    types = pa.string(), pa.string(), pa.bool_()
    columns = zip(zip(*read, strict=True), types, strict=True)
    sequences, snapshots, are_last = [pa.array(*column).take(codes) for column in columns]
    sequences = pc.coalesce(places.sequence, sequences)
    timeless = pc.fill_null(pc.equal(places.source_time, 0), True)
    if pc.any(timeless).as_py():
        are_read = pa.array([op == "r" for op in ops])
        sequences = pc.if_else(pc.and_(timeless, are_read), pa.scalar(None, pa.string()), sequences)
    return places._replace(sequence=sequences, snapshot=snapshots, snapshot_last=are_last)


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
    name, count, order = _find_transaction(source, transaction)
    if source is None:
        return None, None, name, count, None, False
    time = to_microseconds(source.ts_us, source.ts_ns, source.ts_ms)
    sequence = None if connector is None else connector.position(source, order)
    if op != "r":
        return sequence, time, name, count, None, False
    sequence, snapshot, is_last = _read_place(source, connector, sequence)
    return sequence, time, name, count, snapshot, is_last


def _read_place(
    source: SourceBlock, connector: Connector | None, sequence: str | None
) -> tuple[str | None, str | None, bool]:
    """The sequence of a row that was read, its snapshot, and whether it is the last one of it.

    The initial scan of YDB or CockroachDB is no full snapshot: its rows are upserts at their own
    positions, and none is marked as the last. Flink CDC leaves positions empty in the rows of a
    snapshot, or writes the lowest number as PostgreSQL's LSN: such a row stands before everything
    streamed.
    """
    lsn = postgresql_lsn(source)
    lsn = None if lsn is None or text_of(lsn).startswith("-") else lsn
    if sequence is None and lsn is None and connector is not None:
        is_empty = all(getattr(source, member) in (None, "") for member in _POSITIONS)
        sequence = _BEFORE_STREAMED if is_empty else None
    if connector is not None and connector.scans:
        return sequence, None, False
    snapshot = None if source.snapshot == _INCREMENTAL else _snapshot_id(source, lsn, sequence)
    return sequence, snapshot, source.snapshot in _LAST_ROWS


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


def arrival_order(record: Record, envelope: Envelope) -> str:
    """The sequence of a record without a position: before every one that has a position.

    It is the place in the topic (see `topic_sequence`); a record without a time of its own has that
    at which the connector handled it. A record without an offset stands where it arrived.
    """
    handled = to_microseconds(envelope.ts_us, None, envelope.ts_ms)
    stamp = handled if record.timestamp is None else record.timestamp
    by_offset = topic_sequence(stamp, record.partition, record.offset)
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
