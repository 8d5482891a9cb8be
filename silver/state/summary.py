"""What a part of the change log holds, as the tasks say that wrote it, or as a query finds."""

from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cached_property, partial

import msgspec
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage.names import quote
from silver.decode.facts import (
    COUNTED,
    COUNTS,
    FACTS,
    Facts,
    count_batches,
    find_lowest,
    read_facts,
)
from silver.state import key_ranges
from silver.state.epochs import (
    SnapshotProgress,
    TableChanges,
    bound_orders,
    list_progress,
    number_epochs,
)
from silver.state.key_ranges import KeyBounds


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a part of the log holds.

    `incomplete` counts changes that do not carry every column, and `partial` has these columns;
    `key_changes` counts those with an unavailable value; `rejected` counts dead letters by reason;
    `snapshot_progress` is that of full snapshots, in which a last row counts even as a dead letter;
    `oldest` is the lowest sequence of a change. No order key of a change is below `first_order` or
    above `last_order`. `keys` are the bounds of the changes' keys, where they are known: in this
    process only, as the ledger may not hold values of the source. `came` is when the write of the
    part began, in µs since 1970, where that is known. `distinct` says that each change is known to
    be an upsert of all columns, of a key that no other change of the part has.
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
    distinct: bool = False
    filtered: int = 0

    def replace(self, **changes: object) -> "Summary":
        """The summary with other values of some attributes."""
        return msgspec.structs.replace(self, **changes)

    def joined(self, later: "Summary") -> "Summary":
        """The summary of both parts together; `later` was written after this one."""
        first, last = self._orders_with(later)
        counts = {name: getattr(self, name) + getattr(later, name) for name in COUNTS}
        reasons = {**self.rejected, **later.rejected}
        rejected = {r: self.rejected.get(r, 0) + later.rejected.get(r, 0) for r in reasons}
        return self.replace(
            **counts,
            rejected=rejected,
            snapshot_progress=[*self.snapshot_progress, *later.snapshot_progress],
            partial=sorted({*self.partial, *later.partial}),
            oldest=find_lowest(self.oldest, later.oldest),
            came=find_lowest(self.came, later.came),
            first_order=first,
            last_order=last,
            keys=self._keys_with(later),
            distinct=later.distinct if not self.changes else self.distinct and not later.changes,
        )

    def _orders_with(self, later: "Summary") -> tuple[bytes | None, bytes | None]:
        """The bounds of the order keys of both parts; unknown where those of one are.

        So they are where the later part has rows of a full snapshot: the epochs of the earlier
        part's changes may have other numbers since.
        """
        if not (self.changes and later.changes):
            shown = self if self.changes else later
            return shown.first_order, shown.last_order
        bounds = self.first_order, later.first_order, self.last_order, later.last_order
        if later.snapshot_progress or None in bounds:
            return None, None
        return min(filter(None, bounds[:2])), max(filter(None, bounds[2:]))

    def _keys_with(self, other: "Summary") -> KeyBounds | None:
        if not (self.changes and other.changes):
            return self.keys if self.changes else other.keys
        if self.keys is None or other.keys is None:
            return None
        return key_ranges.unite_bounds(self.keys, other.keys)


def summarize(rows: DataFrame, keys: Sequence[str] = ()) -> Summary:
    """What a part of the log holds, by one small job, without the bounds of its order keys.

    `keys` are the columns whose bounds are wanted.
    """
    return _describe_facts(_count_rows(rows, keys))


def summarize_in_order(
    rows: DataFrame, table: Table, whole: TableChanges, keys: Sequence[str] = ()
) -> Summary:
    """As `summarize`, with the bounds of the order keys; `whole` are the snapshots before."""
    return _describe_in_order(_count_rows(rows, keys), table, whole)


def _count_rows(rows: DataFrame, keys: Sequence[str]) -> Facts:
    names = [f"key_{at}" for at in range(len(keys))]
    values = [F.col(quote(key)).alias(name) for key, name in zip(keys, names, strict=True)]
    # Spark's Arrow writer is slow at null lists.
    absent = F.coalesce("_absent", F.array().cast("array<string>")).alias("_absent")
    looked_at = [absent if name == "_absent" else F.col(name) for name in COUNTED]
    counted = rows.select(*looked_at, *values)
    tasks = counted.mapInArrow(partial(count_batches, names), f"{FACTS} binary").collect()
    facts = read_facts(row[FACTS] for row in tasks)
    facts.keys = {key: facts.keys.get(n, (None, None)) for key, n in zip(keys, names, strict=True)}
    return facts


class ObservedRows:
    """Rows to be written to the log, of which the write collects what their tasks know."""

    def __init__(self, rows: DataFrame) -> None:
        self._seen, self._began = Observation(), find_now_micros()
        facts = F.col(FACTS) if FACTS in rows.columns else F.lit(None).cast("binary")
        observed = rows.observe(self._seen, F.collect_list(facts).alias(FACTS))
        self.rows = observed.drop(FACTS)

    @cached_property
    def facts(self) -> Facts:
        """What the tasks know; waits for the write."""
        return read_facts(self._seen.get[FACTS] or [])

    def count_mismatches(self) -> int:
        """How many of the records show columns or types that they were decoded without."""
        return self.facts.mismatched

    def summary(self, table: Table, whole: TableChanges) -> Summary | None:
        """The summary of the written rows; None where SQL changed them after their task.

        `whole` are the table's full snapshots before.
        """
        if self.facts.judged_later or not self.facts.records:
            return None
        return _describe_in_order(self.facts, table, whole).replace(came=self._began)


def find_now_micros() -> int:
    """The current time in µs since 1970."""
    return int(datetime.now(timezone.utc).timestamp() * 1_000_000)


def _describe_in_order(facts: Facts, table: Table, whole: TableChanges) -> Summary:
    summary, epochs = _describe_facts(facts), None
    if table.format == "debezium":
        epochs = number_epochs([*whole.snapshot_progress, *summary.snapshot_progress])
    first, last = bound_orders(facts.rows, epochs)
    return summary.replace(first_order=first, last_order=last)


def _describe_facts(facts: Facts) -> Summary:
    return Summary(
        **{name: getattr(facts, name) for name in COUNTS},
        rejected=facts.rejected,
        snapshot_progress=list_progress(facts.rows),
        partial=sorted(facts.partial),
        oldest=facts.oldest,
        keys=facts.keys,
        distinct=facts.distinct,
    )
