"""What a task knows of the changes that it has decoded: counts and bounds, made by columns.

The facts leave a task once, pickled, beside its last record: so whoever writes the changes knows
what they hold without a query, and without sums over all rows.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from silver.contract import DELETE, FILTERED, NONE, TRUNCATE, UPSERT

FACTS = "_facts"
"""The column with the facts of a task, on its last record."""

COUNTED = (
    *("_operation", "_reason", "_sequence", "_absent", "_old_key", "_mismatched"),
    *("_snapshot", "_snapshot_last", "_source_time"),
    *("_topic", "_partition", "_offset", "_arrival"),
)
"""The columns of changes that are looked at, beside the keys."""

COUNTS = (
    *("records", "changes", "truncates", "without_change", "filtered"),
    *("incomplete", "key_changes"),
)
"""The counts of `Facts` that a summary has, too."""

_OFFSET_DIGITS = 20
_MOST_RUNS = 200
_Ordered = TypeVar("_Ordered", str, int, bytes, tuple[str, str])
_Bounds = dict[str, tuple[Any, Any]]
_Runs = list[tuple[Any, Any]]


class Rows(NamedTuple):
    """Rows with a sequence, of one full snapshot or of none, in one topic and partition.

    Attributes:
        position: the lowest position of one that is no dead letter: offset, else order of arrival.
        began: the lowest commit time, in microseconds since 1970.
        complete: whether the last row of the snapshot is among them.
        lowest: sequence and arrival of the first upsert or delete in order.
        highest: those of the last one.
    """

    position: str | None
    began: int | None
    complete: bool
    lowest: tuple[str, str] | None
    highest: tuple[str, str] | None

    def joined(self, other: "Rows") -> "Rows":
        """What is known of both together."""
        return Rows(
            find_lowest(self.position, other.position),
            find_lowest(self.began, other.began),
            self.complete or other.complete,
            find_lowest(self.lowest, other.lowest),
            max(filter(None, (self.highest, other.highest)), default=None),
        )


@dataclass
class Facts:
    """What some decoded records hold; `joined` adds those of another task.

    Attributes:
        records: how many there are.
        mismatched: how many show columns or types that they were decoded without.
        changes: how many are upserts and deletes.
        truncates: how many are truncates.
        without_change: how many carry no change.
        filtered: how many are left out by `source.where`.
        incomplete: how many do not carry every column.
        key_changes: how many of these are key changes with an unavailable value.
        rejected: how many are dead letters, by reason.
        partial: the columns that some changes do not carry.
        oldest: the lowest sequence of one that is no dead letter.
        rows: those with a sequence, by full snapshot (None for all others) and domain.
        keys: the least and the greatest value of some keys of the changes.
        runs: the ends of the runs in which each of these keys rises from change to change; None
            where these are too many.
        deletes: how many of the changes are deletes.
        source_log: what they show of the source's log, as texts in JSON.
        judged_later: whether SQL may reject or change them after their task.
    """

    records: int = 0
    mismatched: int = 0
    changes: int = 0
    truncates: int = 0
    without_change: int = 0
    filtered: int = 0
    incomplete: int = 0
    key_changes: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)
    oldest: str | None = None
    rows: dict[tuple[str | None, str], Rows] = field(default_factory=dict)
    keys: _Bounds = field(default_factory=dict)
    runs: dict[str, _Runs | None] = field(default_factory=dict)
    deletes: int = 0
    source_log: list[str] = field(default_factory=list)
    judged_later: bool = False

    def count(
        self, batch: pa.RecordBatch, keys: Sequence[str], kept: frozenset[str] | None
    ) -> None:
        """Adds changes, which have the columns `COUNTED` and `keys`.

        Of the columns that they do not carry only those in `kept` count; None stands for all.
        """
        reasons = batch.column("_reason")
        self.records += batch.num_rows
        self.mismatched += batch.num_rows - batch.column("_mismatched").null_count
        self._count_rows(batch, reasons.is_null())
        if reasons.null_count < batch.num_rows:
            _add_counts(self.rejected, reasons.drop_null())
            batch = batch.filter(reasons.is_null())
        operations: dict[str, int] = {}
        _add_counts(operations, batch.column("_operation").drop_null())
        self.truncates += operations.get(TRUNCATE, 0)
        self.without_change += operations.get(NONE, 0)
        self.filtered += operations.get(FILTERED, 0)
        self.deletes += operations.get(DELETE, 0)
        self.changes += operations.get(UPSERT, 0) + operations.get(DELETE, 0)
        self.oldest = find_lowest(self.oldest, pc.min(batch.column("_sequence")).as_py())
        self._count_absent(batch, kept)
        changes = batch.filter(_are_changes(batch)) if keys else batch
        for key in keys:
            ends = pc.min_max(changes.column(key)).as_py()
            self._add_bounds({key: (ends["min"], ends["max"])})
            if changes.num_rows:
                self._add_runs(key, _find_runs(changes.column(key)))

    @property
    def distinct(self) -> bool:
        """Whether each change is an upsert of all columns, of a key that no other change has."""
        if self.incomplete or self.deletes or self.key_changes or not self.changes:
            return False
        return any(runs is not None and _are_apart(runs) for runs in self.runs.values())

    def joined(self, other: "Facts") -> "Facts":
        """The facts of both together."""
        both = replace(self, rejected={**self.rejected}, rows={**self.rows}, keys={**self.keys})
        both.runs = {**self.runs}
        for name in ("mismatched", "deletes", *COUNTS):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        for reason, count in other.rejected.items():
            both.rejected[reason] = both.rejected.get(reason, 0) + count
        for of, rows in other.rows.items():
            both.rows[of] = both.rows[of].joined(rows) if of in both.rows else rows
        both._add_bounds(other.keys)
        for key, runs in other.runs.items():
            both._add_runs(key, runs)
        both.partial = self.partial | other.partial
        both.oldest = find_lowest(self.oldest, other.oldest)
        both.source_log = [*self.source_log, *other.source_log]
        both.judged_later = self.judged_later or other.judged_later
        return both

    def _add_bounds(self, bounds: _Bounds) -> None:
        for key, ends in bounds.items():
            values = [end for end in (*self.keys.get(key, ()), *ends) if end is not None]
            self.keys[key] = (min(values, default=None), max(values, default=None))

    def _add_runs(self, key: str, added: _Runs | None) -> None:
        """Adds the runs of later changes; the first of them may go on with the last one."""
        runs = self.runs.get(key, [])
        if runs is None or added is None or len(runs) + len(added) > _MOST_RUNS:
            self.runs[key] = None
        elif runs and added and runs[-1][1] < added[0][0]:
            self.runs[key] = [*runs[:-1], (runs[-1][0], added[0][1]), *added[1:]]
        else:
            self.runs[key] = [*runs, *added]

    def _count_absent(self, batch: pa.RecordBatch, kept: frozenset[str] | None) -> None:
        absent = batch.column("_absent")
        if absent.null_count == len(absent):
            return
        names, lacking = absent.flatten(), pc.list_parent_indices(absent)
        if kept is not None:
            counts = pc.is_in(names, pa.array(sorted(kept), names.type))
            names, lacking = names.filter(counts), lacking.filter(counts)
        lacking = pc.unique(lacking)
        self.partial |= {*pc.unique(names).to_pylist()}
        self.incomplete += len(lacking)
        old_keys = batch.column("_old_key").take(lacking)
        self.key_changes += len(lacking) - old_keys.null_count

    def _count_rows(self, batch: pa.RecordBatch, sound: pa.Array) -> None:
        """Adds rows by full snapshot and domain, those without a sequence left out."""
        sequences = batch.column("_sequence")
        if sequences.null_count:
            batch, sound = (each.filter(sequences.is_valid()) for each in (batch, sound))
        for part, is_sound in _split_rows(batch, sound):
            of = part.column("_snapshot")[0].as_py(), _name_domain(part)
            rows = _describe_rows(part, is_sound)
            self.rows[of] = self.rows[of].joined(rows) if of in self.rows else rows


def count_batches(
    keys: Sequence[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The facts of changes with the columns `COUNTED` and `keys`: one row, the facts pickled."""
    facts = Facts()
    for batch in batches:
        facts.count(batch, keys, None)
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(facts)])], names=[FACTS])


def read_facts(pickled: Iterable[bytes]) -> Facts:
    """The facts of several tasks as one."""
    facts = Facts()
    for each in pickled:
        facts = facts.joined(pickle.loads(bytes(each)))
    return facts


def find_lowest(*values: _Ordered | None) -> _Ordered | None:
    """The lowest of those that are known."""
    return min((value for value in values if value is not None), default=None)


def _find_runs(values: pa.Array) -> _Runs | None:
    """The ends of the runs in which values rise; None where these are too many."""
    rises = pc.less(values[:-1], values[1:])
    if values.null_count or len(rises) - rises.true_count >= _MOST_RUNS:
        return None
    falls = pc.indices_nonzero(pc.invert(rises)).to_pylist()
    begins, ends = [0, *(at + 1 for at in falls)], [*falls, len(values) - 1]
    return [(values[a].as_py(), values[b].as_py()) for a, b in zip(begins, ends, strict=True)]


def _are_apart(runs: _Runs) -> bool:
    """Whether no value is in two of the runs."""
    ordered = sorted(runs)
    return all(one[1] < other[0] for one, other in pairwise(ordered))


def _add_counts(counts: dict[str, int], values: pa.Array) -> None:
    for each in pc.value_counts(values).to_pylist():
        counts[each["values"]] = counts.get(each["values"], 0) + each["counts"]


def _are_changes(batch: pa.RecordBatch) -> pa.Array:
    return pc.is_in(batch.column("_operation"), pa.array([UPSERT, DELETE]))


def _split_rows(
    batch: pa.RecordBatch, sound: pa.Array
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """The rows of each full snapshot, topic and partition."""
    codes = np.zeros(batch.num_rows, np.int64)
    for name in ("_snapshot", "_topic", "_partition"):
        encoded = batch.column(name).dictionary_encode()
        numbers = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy() + 1
        codes = codes * (len(encoded.dictionary) + 1) + numbers
    if batch.num_rows and codes.min() == codes.max():
        yield batch, sound
        return
    for code in np.unique(codes):
        mask = pa.array(codes == code)
        yield batch.filter(mask), sound.filter(mask)


def _name_domain(rows: pa.RecordBatch) -> str:
    """The topic and partition of rows that share them; empty without a partition."""
    topic, partition = (rows.column(name)[0].as_py() for name in ("_topic", "_partition"))
    return "" if partition is None else f"{topic or ''}/{partition}"


def _describe_rows(rows: pa.RecordBatch, sound: pa.Array) -> Rows:
    began = pc.min(rows.column("_source_time").cast(pa.int64())).as_py()
    complete = bool(pc.any(rows.column("_snapshot_last")).as_py())
    if sound.true_count < len(sound):
        rows = rows.filter(sound)
    offsets, arrivals = rows.column("_offset"), rows.column("_arrival")
    offset = pc.min(offsets).as_py()
    texts = None if offset is None else str(offset).rjust(_OFFSET_DIGITS, "0")
    arrival = pc.min(arrivals.filter(offsets.is_null())).as_py() if offsets.null_count else None
    changes = rows.filter(_are_changes(rows))
    ends = [_find_end(changes, end) for end in ("min", "max")]
    return Rows(find_lowest(texts, arrival), began, complete, *ends)


def _find_end(changes: pa.RecordBatch, which: str) -> tuple[str, str] | None:
    """Sequence and arrival of the first or last change in order."""
    sequences = changes.column("_sequence")
    end = pc.min_max(sequences)[which]
    if not end.is_valid:
        return None
    there = changes.column("_arrival").filter(pc.equal(sequences, end))
    return end.as_py(), pc.min_max(there)[which].as_py()
