"""Where the records of a slice stand in order: what `ordered_change` says of each, as lists."""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from silver.contract import DELETE, UPSERT
from silver.decode.change import Change
from silver.decode.debezium.events.envelope import Envelope, Source, Transaction
from silver.decode.debezium.events.order import (
    INCREMENTAL,
    LAST_MICROSECOND,
    LAST_ROWS,
    ordered_change,
    transaction_name,
)

_NONE = type(None)
_LIMIT = 1 << 63
_UNITS = (("ts_us", 1, 1), ("ts_ns", 1, 1_000), ("ts_ms", 1_000, 1))


class Events(NamedTuple):
    """The events of some records: one entry per record."""

    ops: Sequence[str]
    sources: Sequence[Source | None]
    transactions: Sequence[Transaction | None]


class Places(NamedTuple):
    """What tells the place of each change in order; the fields of `Change` of the same name."""

    sequence: Sequence[str | None]
    source_time: Sequence[int | None]
    transaction: Sequence[str | None]
    transaction_order: Sequence[int | None]
    snapshot: Sequence[str | None]
    snapshot_last: Sequence[bool | None]


def find_places(events: Events) -> Places:
    """The places of events; one that needs thought has no sequence."""
    found = _of_plain_positions(events)
    if found is not None:
        return found
    placed = [_placed(*one) for one in zip(*events, strict=True)]
    return Places(*[[getattr(one, name) for one in placed] for name in Places._fields])


def _placed(op: str, source: Source | None, transaction: Transaction | None) -> Change:
    envelope = Envelope(op=op, source=source, transaction=transaction)
    change = ordered_change(envelope, DELETE if op == "d" else UPSERT)
    if op == "r" and not change.source_time:
        change.sequence = None  # the envelope's own time may count
    return change


def _of_plain_positions(events: Events) -> Places | None:
    """The places of events with a log sequence number and plain times; None for any others."""
    ops, sources, transactions = events
    count = len(ops)
    if None in sources:
        return None
    numbers = list(map(attrgetter("lsn"), sources))
    times = _plain_times(sources)
    if times is None or set(map(type, numbers)) != {int}:
        return None
    orders: Sequence[int | None] = [None] * count
    names: Sequence[object] = list(map(attrgetter("txId"), sources))
    if any(transactions):
        orders = [None if t is None else t.total_order for t in transactions]
        if not set(map(type, orders)) <= {int, _NONE}:
            return None
        told = [None if t is None else transaction_name(t.id) for t in transactions]
        names = [own if one is None else one for one, own in zip(told, names, strict=True)]
    if min(numbers) < 0 or max(numbers) >= _LIMIT or not _are_counts(orders):
        return None
    if not set(map(type, names)) <= {int, str, _NONE}:
        return None
    sequences = [f"{n:016X}/{o or 0:016X}" for n, o in zip(numbers, orders, strict=True)]
    snapshots: Sequence[str | None] = [None] * count
    lasts: Sequence[bool] = [False] * count
    if "r" in ops:
        if not {type(s.name) for s in sources} <= {str, _NONE}:
            return None
        if min(times) == 0 or any(s.step is not None or s.ts_hlc is not None for s in sources):
            return None
        snapshots = [_snapshot(*one) for one in zip(ops, sources, numbers, strict=True)]
        lasts = [op == "r" and s.snapshot in LAST_ROWS for op, s in zip(ops, sources, strict=True)]
    transaction = [None if name is None else str(name) for name in names]
    return Places(sequences, times, transaction, orders, snapshots, lasts)


def _snapshot(op: str, source: Source, number: int) -> str | None:
    if op != "r" or source.snapshot == INCREMENTAL:
        return None
    return f"{'' if source.name is None else source.name}:{number}"


def _plain_times(sources: Sequence[Source]) -> list[int] | None:
    """The times of all from the finest count, if it is the same one for all and a number."""
    for name, factor, divisor in _UNITS:
        ticks = list(map(attrgetter(name), sources))
        kinds = set(map(type, ticks))
        if kinds == {_NONE}:
            continue
        if kinds != {int} or min(ticks) < 0:
            return None
        micros = ticks if factor == divisor else [one * factor // divisor for one in ticks]
        return micros if max(micros) <= LAST_MICROSECOND and max(ticks) < _LIMIT else None
    return None


def _are_counts(orders: Sequence[int | None]) -> bool:
    return all(order is None or 0 <= order < _LIMIT for order in orders)
