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
from silver.decode.values.json_values import text_of

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
    sources = [source for source in events.sources if source is not None]
    if len(sources) < len(events.sources):
        return None
    numbers = list(map(attrgetter("lsn"), sources))
    times = _plain_times(sources)
    if times is None or not _are_counts(numbers) or None in numbers:
        return None
    orders: list[object] = [None] * len(sources)
    ids = list(map(attrgetter("txId"), sources))
    if any(events.transactions):
        orders = [None if t is None else t.total_order for t in events.transactions]
        names = [_named(*one) for one in zip(events.transactions, sources, strict=True)]
    elif set(map(type, ids)) == {int}:
        names = list(map(str, ids))
    else:
        names = [_named(None, source) for source in sources]
    if not _are_counts(orders):
        return None
    sequences = [f"{n:016X}/{o or 0:016X}" for n, o in zip(numbers, orders, strict=True)]
    snapshots: Sequence[str | None] = [None] * len(sources)
    lasts: Sequence[bool] = [False] * len(sources)
    if "r" in events.ops:
        if min(times) == 0 or not all(map(_is_read_plainly, sources)):
            return None
        reads = list(zip(events.ops, sources, strict=True))
        snapshots = [_snapshot(*one, n) for one, n in zip(reads, numbers, strict=True)]
        lasts = [op == "r" and source.snapshot in LAST_ROWS for op, source in reads]
    counts = [order if isinstance(order, int) else None for order in orders]
    return Places(sequences, times, names, counts, snapshots, lasts)


def _named(transaction: Transaction | None, source: Source) -> str | None:
    """The name of a transaction, else the source's own number of it."""
    name = None if transaction is None else transaction_name(transaction.id)
    if name is not None or source.txId is None:
        return name
    return str(source.txId) if type(source.txId) is int else str(text_of(source.txId))


def _is_read_plainly(source: Source) -> bool:
    """Whether a row that was read is of no initial scan with positions of its own."""
    return type(source.name) in (str, _NONE) and source.step is None and source.ts_hlc is None


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


def _are_counts(numbers: Sequence[object]) -> bool:
    """Whether all are numbers from 0 to 2^63 - 1, or null."""
    if not set(map(type, numbers)) <= {int, _NONE}:
        return False
    counts = [number for number in numbers if isinstance(number, int)]
    return not counts or (min(counts) >= 0 and max(counts) < _LIMIT)
