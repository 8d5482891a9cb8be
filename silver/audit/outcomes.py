"""What was done with every record of one key, in words for a person.

The outcome of a change is that of the fold (`silver.audit.replay`). One table run applies all
records of a `batch`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from silver.audit.replay import Done, KeyRecord, replay
from silver.contract import DELETE, FILTERED, NONE, TRUNCATE, UPSERT
from silver.fold.order_key import sequence_of

SNAPSHOT, KEY_CHANGE = "snapshot", "key change"

_Identity = tuple[bytes, str | None, int, bool]


class RecordOutcome(NamedTuple):
    """A record and what was done with it."""

    record: KeyRecord
    outcome: str
    because: str | None = None


def list_outcomes(
    records: Sequence[KeyRecord], applied: int, history: bool, on_truncate: str
) -> list[RecordOutcome]:
    """Every record in order of sequence; those without one come last, in order of arrival.

    Args:
        records: the key's records, the truncates and snapshots of its table, and the inserts of
            keys that it became.
        applied: the newest batch that is applied.
        history: whether the table keeps every version.
        on_truncate: the table's setting.
    """
    waiting = [RecordOutcome(r, "waiting", "not applied yet") for r in records if r.batch > applied]
    applied_records = sorted((r for r in records if r.batch <= applied), key=lambda r: r.arrival)
    outcomes = _judge_records(applied_records, history, on_truncate)
    ordered = sorted([*waiting, *filter(None, outcomes)], key=_order_of)
    return [_with_replay(each) for each in ordered]


def _judge_records(
    records: Sequence[KeyRecord], history: bool, on_truncate: str
) -> list[RecordOutcome | None]:
    """The outcome of each applied record, which are in order of arrival."""
    firsts = _find_firsts(records)
    cuts = [r for r in firsts.values() if _is_cut(r, on_truncate)]
    changes = [r for r in records if _is_change(r)]
    done = {id(r): d for r, d in zip(changes, replay(changes, cuts, history), strict=True)}
    counted = [r for r in changes if done[id(r)].outcome != "duplicate"]
    key = _Key(firsts, sorted(counted, key=lambda r: r.order), cuts, history)
    return [
        _judge_change(r, done[id(r)], key) if _is_change(r) else _judge_other(r, key, on_truncate)
        for r in records
    ]


class _Key(NamedTuple):
    """The first of every distinct record, the changes in order, and what removed older ones."""

    firsts: Mapping[_Identity, KeyRecord]
    changes: list[KeyRecord]
    cuts: list[KeyRecord]
    history: bool


def _is_change(record: KeyRecord) -> bool:
    return record.reason is None and record.operation in (UPSERT, DELETE) and not record.moved


def _is_cut(record: KeyRecord, on_truncate: str) -> bool:
    return record.operation == SNAPSHOT or (record.operation == TRUNCATE and on_truncate == "apply")


def _order_of(outcome: RecordOutcome) -> tuple[bool, bytes, str]:
    return (not outcome.record.order, outcome.record.order, outcome.record.arrival)


def _identify_record(record: KeyRecord) -> _Identity:
    return (_read_sequence(record), record.operation, record.digest, record.moved)


def _read_sequence(record: KeyRecord) -> bytes:
    return sequence_of(record.order) if record.order else b""


def _find_firsts(records: Sequence[KeyRecord]) -> dict[_Identity, KeyRecord]:
    """The first of every distinct record, without rejected ones and those without a change."""
    firsts: dict[_Identity, KeyRecord] = {}
    for record in records:
        if record.reason is None and record.operation not in (NONE, FILTERED):
            firsts.setdefault(_identify_record(record), record)
    return firsts


def _judge_other(record: KeyRecord, key: _Key, on_truncate: str) -> RecordOutcome | None:
    """The outcome of a record that is no change of the key."""
    if record.reason is not None:
        return RecordOutcome(record, "rejected", f"{record.reason}: {record.message}")
    if record.operation == NONE:
        return RecordOutcome(record, "no change", "the record carries none")
    if record.operation == FILTERED:
        return RecordOutcome(record, FILTERED, "source.where is not true")
    first = key.firsts[_identify_record(record)]
    if first is not record:
        return RecordOutcome(record, "duplicate", f"of {first.position}")
    if record.moved:
        return RecordOutcome(record, KEY_CHANGE, "the row moved to another key")
    return _judge_cut(record, key, on_truncate)


def _judge_cut(record: KeyRecord, key: _Key, on_truncate: str) -> RecordOutcome | None:
    """The outcome of a truncate or a snapshot without the key: None if it removed no row."""
    before = [c for c in key.changes if c.order < record.order]
    if not before or before[-1].operation == DELETE:
        return None
    if any(before[-1].order < cut.order < record.order for cut in key.cuts):
        return None
    if record.operation == TRUNCATE and on_truncate != "apply":
        return RecordOutcome(record, "ignored", f"on_truncate is {on_truncate}")
    unless = ", which the full snapshot does not show" if record.operation == SNAPSHOT else ""
    return RecordOutcome(record, "applied", f"removed the row of {before[-1].position}{unless}")


def _judge_change(record: KeyRecord, done: Done, key: _Key) -> RecordOutcome:
    """The outcome of a change, and which other change is the cause of it."""
    after = [c for c in key.changes if c.order > record.order]
    later = [c for c in after if c.batch <= record.batch]
    if done.outcome != "duplicate" and done.columns and later:
        because = f"{', '.join(done.columns)}: not in {later[-1].position}"
        return RecordOutcome(record, "applied", because)
    if done.outcome in _WHY:
        return RecordOutcome(record, done.outcome, _WHY[done.outcome](record, later, key))
    if later:
        return RecordOutcome(record, "applied", f"a version until {later[0].position}")
    moved = [f"the row moved here from {record.old_key}"] if record.old_key is not None else []
    until = [f"newest until {after[0].position}"] if after else []
    return RecordOutcome(record, "applied", "; ".join(moved + until) or None)


def _name_original(record: KeyRecord, _: list[KeyRecord], key: _Key) -> str:
    same = (c for c in key.changes if _identify_record(c) == _identify_record(record))
    return f"of {next(same, record).position}"


def _name_cause(record: KeyRecord, later: list[KeyRecord], key: _Key) -> str:
    """Which newer change supersedes a change, or which cut-off."""
    cuts = (c for c in key.cuts if c.order > record.order and c.batch <= record.batch)
    if (cut := next(cuts, None)) is not None:
        return f"{cut.position}, the {cut.operation} after it"
    by = later[0] if key.history else later[-1]
    tie = ", which has the same sequence and arrived later" if _same_place(by, record) else ""
    return f"{by.position}{tie}"


def _same_place(one: KeyRecord, other: KeyRecord) -> bool:
    return _read_sequence(one) == _read_sequence(other)


def _with_replay(outcome: RecordOutcome) -> RecordOutcome:
    if outcome.record.replayed is None or outcome.outcome == "rejected":
        return outcome
    because = f"{outcome.because}; " if outcome.because else ""
    return outcome._replace(because=f"{because}{outcome.record.replayed}")


_WHY: Mapping[str, Callable[[KeyRecord, list[KeyRecord], _Key], str]] = {
    "duplicate": _name_original,
    "superseded": lambda record, later, key: f"by {_name_cause(record, later, key)}",
    "late": lambda _, later, key: f"woven into the history before {later[0].position}",
    "delete_unknown": lambda *_: "there was no row to delete; kept as a tombstone",
}
"""The cause in words, by outcome."""
