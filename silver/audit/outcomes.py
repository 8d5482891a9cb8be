"""What was done with every record of one key: the reasoning, on a few plain records.

The order and the rules are those of `silver.fold`, told for a person. A pass is what one
application of the log took together (`batch`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from silver.contract import DELETE, NONE, TRUNCATE, UPSERT
from silver.fold.order_key import sequence_of

SNAPSHOT, KEY_CHANGE = "snapshot", "key change"


class Record(NamedTuple):
    """A record of bronze as the change log has it.

    `order` is its order key, empty when it has none; `moved` says that the record is
    another key's, which this key became; `values` are the carried ones as JSON.
    """

    position: str
    arrival: str
    batch: int
    operation: str | None
    sequence: str | None = None
    order: bytes = b""
    digest: int = 0
    source_time: str | None = None
    carried: frozenset[str] = frozenset()
    reason: str | None = None
    message: str | None = None
    replayed: str | None = None
    old_key: str | None = None
    moved: bool = False
    values: str | None = None


class Told(NamedTuple):
    """A record and what was done with it."""

    record: Record
    outcome: str
    because: str | None = None


def outcomes(
    records: Sequence[Record], applied: int, history: bool, on_truncate: str
) -> list[Told]:
    """Every record in order of sequence; those without one come last, in order of arrival.

    Args:
        records: the key's records, the truncates and snapshots of its table, and the inserts of
            keys that it became.
        applied: the newest pass that is applied.
        history: whether the table keeps every version.
        on_truncate: the table's own.
    """
    waiting = [Told(r, "waiting", "not applied yet") for r in records if r.batch > applied]
    known = sorted((r for r in records if r.batch <= applied), key=lambda r: r.arrival)
    firsts = _firsts(known)
    cuts = [r for r in firsts.values() if r.operation == SNAPSHOT or _cuts(r, on_truncate)]
    changes = sorted(
        (r for r in firsts.values() if r.operation in (UPSERT, DELETE) and not r.moved),
        key=lambda r: r.order,
    )
    told = [_told(r, firsts, changes, cuts, history, on_truncate) for r in known]
    ordered = sorted([*waiting, *(t for t in told if t is not None)], key=_place)
    return [_with_replay(each) for each in ordered]


def _cuts(record: Record, on_truncate: str) -> bool:
    return record.operation == TRUNCATE and on_truncate == "apply"


def _place(told: Told) -> tuple[bool, bytes, str]:
    return (not told.record.order, told.record.order, told.record.arrival)


def _identity(record: Record) -> tuple[bytes, str | None, int, bool]:
    return (_sequence(record), record.operation, record.digest, record.moved)


def _sequence(record: Record) -> bytes:
    return sequence_of(record.order) if record.order else b""


def _firsts(known: Sequence[Record]) -> dict[tuple[bytes, str | None, int, bool], Record]:
    """Of every distinct sound record the one that came first."""
    firsts: dict[tuple[bytes, str | None, int, bool], Record] = {}
    for record in known:
        if record.reason is None and record.operation != NONE:
            firsts.setdefault(_identity(record), record)
    return firsts


def _told(
    record: Record,
    firsts: Mapping[tuple[bytes, str | None, int, bool], Record],
    changes: list[Record],
    cuts: list[Record],
    history: bool,
    on_truncate: str,
) -> Told | None:
    if record.reason is not None:
        return Told(record, "rejected", f"{record.reason}: {record.message}")
    if record.operation == NONE:
        return Told(record, "no change", "the record carries none")
    first = firsts[_identity(record)]
    if first is not record:
        return Told(record, "duplicate", f"of {first.position}")
    if record.moved:
        return Told(record, KEY_CHANGE, "the row moved to another key")
    if record.operation in (TRUNCATE, SNAPSHOT):
        return _cut(record, changes, cuts, on_truncate)
    return _changed(record, changes, cuts, history)


def _cut(
    record: Record, changes: list[Record], cuts: list[Record], on_truncate: str
) -> Told | None:
    """A truncate or a snapshot without the key: told only when it took the key's row away."""
    before = [c for c in changes if c.order < record.order]
    if not before or before[-1].operation == DELETE:
        return None
    if any(before[-1].order < cut.order < record.order for cut in cuts):
        return None
    if record.operation == TRUNCATE and on_truncate != "apply":
        return Told(record, "ignored", f"on_truncate is {on_truncate}")
    unless = ", which the full snapshot does not show" if record.operation == SNAPSHOT else ""
    return Told(record, "applied", f"removed the row of {before[-1].position}{unless}")


def _changed(record: Record, changes: list[Record], cuts: list[Record], history: bool) -> Told:
    cut = next((c for c in cuts if c.order > record.order and c.batch <= record.batch), None)
    if cut is not None:
        return Told(record, "superseded", f"by {cut.position}, the {cut.operation} after it")
    met = [c for c in changes if c.batch <= record.batch]
    later = [c for c in met if c.order > record.order]
    if not later:
        return _newest(record, changes, met, cuts)
    if history:
        return _woven(record, later)
    return _overtaken(record, later)


def _newest(record: Record, changes: list[Record], met: list[Record], cuts: list[Record]) -> Told:
    """The newest change of the key when it was applied."""
    before = [c for c in met if c.order < record.order]
    gone = (
        not before
        or before[-1].operation == DELETE
        or any(before[-1].order < cut.order < record.order for cut in cuts)
    )
    if record.operation == DELETE and gone:
        return Told(record, "delete_unknown", "there was no row to delete; kept as a tombstone")
    return Told(record, "applied", "; ".join(_why(record, changes)) or None)


def _why(record: Record, changes: list[Record]) -> Iterator[str]:
    if record.old_key is not None:
        yield f"the row moved here from {record.old_key}"
    after = [c for c in changes if c.order > record.order]
    if after:
        yield f"newest until {after[0].position}"


def _woven(record: Record, later: list[Record]) -> Told:
    if _same_place(later[0], record):
        return _superseded(record, later[0])
    if all(c.batch == record.batch for c in later):
        return Told(record, "applied", f"a version until {later[0].position}")
    return Told(record, "late", f"woven into the history before {later[0].position}")


def _overtaken(record: Record, later: list[Record]) -> Told:
    """An older change: it only adds the columns that no newer one carries."""
    newer: frozenset[str] = frozenset().union(*(c.carried for c in later))
    left = sorted(record.carried - newer)
    if record.operation == UPSERT and left and all(c.operation == UPSERT for c in later):
        return Told(record, "applied", f"{', '.join(left)}: not in {later[-1].position}")
    return _superseded(record, later[-1])


def _superseded(record: Record, by: Record) -> Told:
    tie = ", which has the same sequence and arrived later" if _same_place(by, record) else ""
    return Told(record, "superseded", f"by {by.position}{tie}")


def _same_place(one: Record, other: Record) -> bool:
    return _sequence(one) == _sequence(other)


def _with_replay(told: Told) -> Told:
    if told.record.replayed is None or told.outcome == "rejected":
        return told
    because = f"{told.because}; " if told.because else ""
    return told._replace(because=f"{because}{told.record.replayed}")
