"""Cuts the rows of one key's history, which come in order, into versions.

A version is a run of upserts that agree on the tracked columns, without a delete between them or a
cut-off that ends it. A snapshot's cut-off ends the versions of rows that the snapshot lacks, a
truncate those of rows that are not put back at the same time. The newest row of a version is shown,
and has the bounds of the version. All other rows are kept without being shown, for a delete that
arrives late between two of them.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from silver.fold.law import NO_VALUES, Content
from silver.fold.rules import NO_SOURCE, Changes, Cutoff, FoldRules, VersionFacts

Agree = Callable[[Content, Content], bool]
"""Whether two rows agree on the tracked columns; null agrees with null only."""

NO_COLUMNS: frozenset[str] = frozenset()


class HistoryRow(NamedTuple):
    """A row of the history that is new or differs.

    `source` is its change, `content` its values, and `taken` names the absent columns of the change
    whose values come from the key that the row moved from.
    """

    source: int
    content: Content
    facts: VersionFacts
    taken: frozenset[str] = NO_COLUMNS


class HeldRow:
    """A row that is held until it is known what follows it.

    Attributes:
        source, order, new, digest, upsert, own_time: those of its change.
        stored: the facts of its stored row, if there is one.
        content: its values.
        rewritten: whether these may differ from those of the stored row.
        life: order key of the newest delete or cut-off before it; `is_first` says that no change
            stands between the two.
        time: the newest commit time up to its change, whose own time may be earlier.
        from_time: when its version began; None while it has none.
        from_order: order key of the version's first change.
        next_order: order key of the key's next change.
    """

    __slots__ = (
        "content", "digest", "from_order", "from_time", "is_first", "life", "new", "next_order",
        "order", "own_time", "rewritten", "source", "stored", "time", "upsert",
    )  # fmt: skip

    def __init__(self, changes: Changes, at: int, stored: VersionFacts | None) -> None:
        self.source, self.order, self.new = changes.source[at], changes.order[at], changes.new[at]
        self.digest, self.upsert, self.stored = changes.digest[at], changes.upsert[at], stored
        self.content, self.life = NO_VALUES, b""
        self.is_first = self.rewritten = False
        self.from_time: int | None = None
        self.own_time = changes.time[at]
        self.time: int | None = None
        self.from_order: bytes | None = None
        self.next_order: bytes | None = None


class OpenVersion:
    """The version that is open at the newest row so far; older rows have been emitted.

    Attributes:
        newest: the newest row of the version; None after a delete, and before the first upsert.
        rows: the emitted rows that are new or differ from their stored rows.
    """

    __slots__ = ("_agree", "_rules", "newest", "rows")

    def __init__(self, rules: FoldRules, agree: Agree) -> None:
        self._rules, self._agree = rules, agree
        self.newest: HeldRow | None = None
        self.rows: list[HistoryRow] = []

    def add_upsert(self, row: HeldRow) -> None:
        """Goes on with a row, or begins a version with it."""
        before, self.newest = self.newest, row
        if row.from_time is None:
            row.from_time, row.from_order = row.time, row.order
        if before is None:
            return
        if self._continues(before, row) and self._agree(before.content, row.content):
            row.from_time, row.from_order = before.from_time, before.from_order
            self._emit(before)
        else:
            self._end_with(before, row)

    def add_delete(self, row: HeldRow) -> None:
        """Ends the version with a delete."""
        if self.newest is not None:
            self._end_with(self.newest, row)
            self.newest = None
        self.add_outside(row)

    def add_outside(self, row: HeldRow) -> None:
        """Emits a row that belongs to no version: a delete, or the loser of a tie."""
        row.from_time = row.from_order = None
        self._emit(row)

    def finish(self) -> None:
        """Emits the newest row: no other follows."""
        if self.newest is not None:
            self._end_with(self.newest, None)
            self.newest = None

    def find_ending(self, row: HeldRow, following: HeldRow | None) -> Cutoff | None:
        """The first cut-off before the following row that ends the row's version."""
        if row.order > self._rules.newest_cutoff:
            return None
        orders = self._rules.cutoff_orders
        begin = bisect_left(orders, row.order)
        end = None if following is None else bisect_left(orders, following.order)
        passed = self._rules.cutoffs[begin:end]
        if following is not None and following.upsert:
            passed = tuple(c for c in passed if not c.spares(following.order, following.own_time))
        return passed[0] if passed else None

    def _continues(self, row: HeldRow, following: HeldRow) -> bool:
        """Whether only cut-offs that end no version stand between a row and the following one."""
        if row.life == following.life:
            return True
        orders = self._rules.cutoff_orders
        passed = bisect_left(orders, following.order)
        begins_at_cutoff = passed > 0 and orders[passed - 1] == following.life
        return begins_at_cutoff and self.find_ending(row, following) is None

    def _end_with(self, row: HeldRow, following: HeldRow | None) -> None:
        """Emits a version's newest row; a cut-off or else the following row ends the version."""
        cutoff = self.find_ending(row, following)
        if cutoff is not None:
            order, time = cutoff.order, cutoff.time
        elif following is not None:
            order, time = following.order, following.time
        else:
            self._emit(row, shown=True)
            return
        if time is None or (row.from_time is not None and row.from_time > time):
            time = row.from_time
        self._emit(row, True, order, time)

    def _emit(
        self, row: HeldRow, shown: bool = False, end: bytes | None = None, time: int | None = None
    ) -> None:
        """Adds a row that is new or differs; a shown one whose version ends at `end` and `time`."""
        may_keep = self._rules.keeps_deleted and not row.upsert
        kept = row.content.source != NO_SOURCE if may_keep else None
        facts = VersionFacts(
            row.next_order, shown, shown and end is None, row.time, row.from_time, time,
            row.from_order, end, row.life, kept,
        )  # fmt: skip
        if row.stored is None or row.rewritten or facts != row.stored:
            taken = NO_COLUMNS
            if row.content.parts:
                parts = row.content.parts.items()
                taken = frozenset(c for c, (order, _, _) in parts if order == row.order)
            self.rows.append(HistoryRow(row.source, row.content, facts, taken))
