"""Counts of a part of the change log, made while it is written, or afterwards.

A write is observed, which saves a query of the written rows. Counts that one row of sums cannot
have (several snapshots, dead letters by reason) are queried afterwards.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.storage.names import quote
from silver.contract import DELETE, NONE, TRUNCATE, UPSERT
from silver.fold.order_key import order_sql
from silver.state import key_ranges
from silver.state.epochs import SnapshotProgress, domain_column, lowest, position_column
from silver.state.key_ranges import KeyBounds

_COUNTS = ("records", "changes", "truncates", "without_change", "incomplete", "key_changes")


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a part of the log holds.

    `incomplete` counts changes that do not carry every column, and `partial` has these columns;
    `key_changes` counts those with an unavailable value; `rejected` counts dead letters by reason;
    `snapshot_progress` is that of full snapshots, in which a last row counts even as a dead letter;
    `oldest` is the lowest sequence of a change. Only where the summary was observed in a write:
    `came` is when that began, in µs since 1970, `first_order` and `last_order` are the lowest and
    the highest order key of a change. `keys` are the bounds of the changes' keys, where they are
    known: in this process only, as the ledger may not hold values of the source.
    """

    records: int = 0
    changes: int = 0
    truncates: int = 0
    without_change: int = 0
    incomplete: int = 0
    key_changes: int = 0
    rejected: dict[str, int] = {}
    snapshot_progress: list[SnapshotProgress] = []
    partial: list[str] = []
    oldest: str | None = None
    came: int | None = None
    first_order: bytes | None = None
    last_order: bytes | None = None
    keys: KeyBounds | None = None

    def replace(self, **changes: object) -> "Summary":
        """The summary with other values of some attributes."""
        return msgspec.structs.replace(self, **changes)

    def joined(self, later: "Summary") -> "Summary":
        """The summary of both parts together; `later` was written after this one."""
        counts = {name: getattr(self, name) + getattr(later, name) for name in _COUNTS}
        reasons = {**self.rejected, **later.rejected}
        rejected = {r: self.rejected.get(r, 0) + later.rejected.get(r, 0) for r in reasons}
        return self.replace(
            **counts,
            rejected=rejected,
            snapshot_progress=[*self.snapshot_progress, *later.snapshot_progress],
            partial=sorted({*self.partial, *later.partial}),
            oldest=lowest(self.oldest, later.oldest),
            came=lowest(self.came, later.came),
            first_order=lowest(self.first_order, later.first_order),
            last_order=max(self.last_order or b"", later.last_order or b"") or None,
            keys=self._keys_with(later),
        )

    def _keys_with(self, other: "Summary") -> KeyBounds | None:
        if not (self.changes and other.changes):
            return self.keys if self.changes else other.keys
        if self.keys is None or other.keys is None:
            return None
        return key_ranges.unite_bounds(self.keys, other.keys)


_OBSERVED_ONLY = ("mismatched", "source_log")


def summarize(rows: DataFrame, keys: Sequence[str] = ()) -> Summary:
    """Counts a part of the log in one small job: the same sums, for each kind of rows.

    `keys` are the columns whose bounds are wanted. What only a write can observe is left out: when
    it began, and the order keys.
    """
    wanted = {n: sum for n, sum in _build_sums("_sequence").items() if n not in _OBSERVED_ONLY}
    sums = [sum.alias(n) for n, sum in (wanted | _build_key_bounds(keys)).items()]
    shown = _build_shown_snapshot().alias("shown")
    kinds = rows.groupBy(F.col("_reason").alias("reason"), shown).agg(*sums)
    summary = Summary()
    for row in kinds.collect():
        rejected = {row["reason"]: row["records"]} if row["reason"] is not None else {}
        part = _build_summary(row.asDict(), None, keys).replace(rejected=rejected)
        summary = summary.joined(part)
    snapshot_progress = _join_by_snapshot(summary.snapshot_progress)
    return summary.replace(snapshot_progress=snapshot_progress, first_order=None, last_order=None)


def _join_by_snapshot(snapshot_progress: Iterable[SnapshotProgress]) -> list[SnapshotProgress]:
    """Joins the progress of each snapshot in each domain."""
    joined: dict[tuple[str, str], SnapshotProgress] = {}
    for seen in snapshot_progress:
        earlier = joined.get(seen[:2])
        joined[seen[:2]] = seen if earlier is None else earlier.joined(seen)
    return list(joined.values())


class ObservedRows(NamedTuple):
    """Rows to be written to the log, and what Spark observes of them in the write.

    The write must be one stage: rows that are computed twice are counted twice.
    """

    rows: DataFrame
    seen: Observation
    began: int
    keys: Sequence[str]

    def count_mismatches(self) -> int:
        """How many of the records show columns or types that they were decoded without."""
        return int(self.seen.get["mismatched"])

    def records(self) -> int:
        """How many records were written."""
        return int(self.seen.get["records"])

    def source_log(self) -> list[str]:
        """What the records show of the source's log, as texts in JSON."""
        return list(self.seen.get["source_log"] or [])

    def summary(self) -> Summary | None:
        """The summary of the written rows; None where the sums are not enough for it."""
        sums = self.seen.get
        is_mixed = sums["rejected"] or (sums["first_shown"] != sums["last_shown"])
        return None if is_mixed else _build_summary(sums, self.began, self.keys)


def observe_rows(rows: DataFrame, sequence: str, keys: Sequence[str]) -> ObservedRows:
    """The rows, counted while they are written.

    `sequence` is SQL of a change's sequence, `keys` are the columns whose bounds are wanted.
    """
    seen, sums = Observation(), _build_sums(sequence) | _build_key_bounds(keys)
    observed = rows.observe(seen, *[value.alias(name) for name, value in sums.items()])
    return ObservedRows(observed, seen, find_now_micros(), keys)


def find_now_micros() -> int:
    """The current time in µs since 1970."""
    return int(datetime.now(timezone.utc).timestamp() * 1_000_000)


def _build_sums(sequence: str) -> dict[str, Column]:
    sound, shows, changes = F.col("_reason").isNull(), _shows_snapshot(), _is_change()
    absent = F.when(sound, F.col("_absent"))
    lacks = absent.isNotNull()
    order, shown = F.when(changes, F.expr(order_sql(sequence))), _build_shown_snapshot()
    return {
        "records": F.count(F.lit(1)),
        "rejected": F.count("_reason"),
        "mismatched": F.count("_mismatched"),
        "changes": F.count_if(changes),
        "truncates": F.count_if(sound & (F.col("_operation") == TRUNCATE)),
        "without_change": F.count_if(sound & (F.col("_operation") == NONE)),
        "incomplete": F.count_if(lacks),
        "key_changes": F.count_if(lacks & F.col("_old_key").isNotNull()),
        "partial": F.array_sort(F.array_distinct(F.flatten(F.collect_set(absent)))),
        "oldest": F.min(F.when(sound, F.col("_sequence"))),
        "first_order": F.min(order),
        "last_order": F.max(order),
        "source_log": F.collect_list("_source_log"),
        "first_shown": F.min(shown),
        "last_shown": F.max(shown),
        "first_position": F.min(F.when(shows & sound, position_column())),
        "complete": F.max(F.when(shows, F.col("_snapshot_last"))),
        "started": F.min(F.when(shows, F.unix_micros("_source_time"))),
    }


def _is_change() -> Column:
    return F.col("_reason").isNull() & F.col("_operation").isin(UPSERT, DELETE)


def _build_key_bounds(keys: Sequence[str]) -> dict[str, Column]:
    """The least and the greatest value of each key column, of the changes."""
    values = [F.when(_is_change(), F.col(quote(key))) for key in keys]
    lowest = {f"key_{at}_from": F.min(value) for at, value in enumerate(values)}
    return lowest | {f"key_{at}_to": F.max(value) for at, value in enumerate(values)}


def _shows_snapshot() -> Column:
    """Whether a row belongs to a full snapshot, even as a dead letter."""
    return F.col("_snapshot").isNotNull() & F.col("_sequence").isNotNull()


def _build_shown_snapshot() -> Column:
    """The snapshot and domain of a row of a full snapshot; null for others."""
    return F.when(_shows_snapshot(), F.struct(F.col("_snapshot"), domain_column().alias("domain")))


def _build_summary(sums: Mapping[str, Any], began: int | None, keys: Sequence[str]) -> Summary:
    shown, snapshot_progress = sums["first_shown"], list[SnapshotProgress]()
    if shown is not None:
        place = shown["_snapshot"], shown["domain"], sums["first_position"]
        snapshot_progress = [SnapshotProgress(*place, bool(sums["complete"]), sums["started"])]
    return Summary(
        **{name: int(sums[name]) for name in _COUNTS},
        rejected={},
        snapshot_progress=snapshot_progress,
        partial=sums["partial"] or [],
        oldest=sums["oldest"],
        came=began,
        first_order=_to_bytes(sums["first_order"]),
        last_order=_to_bytes(sums["last_order"]),
        keys={k: (sums[f"key_{n}_from"], sums[f"key_{n}_to"]) for n, k in enumerate(keys)},
    )


def _to_bytes(order: bytearray | None) -> bytes | None:
    return None if order is None else bytes(order)
