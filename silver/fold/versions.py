"""Histories under the law: one row per change of a key, cut into versions.

A row holds the values that the table had at its change's place in order. A version is a run of
upserts that agree on the tracked columns, without a delete between them or a cut-off that ends it.
A snapshot's cut-off ends the versions of rows that the snapshot lacks, a truncate those of rows
that are not put back at the same time. The newest row of a version is shown, and has the bounds of
the version. Rows that are not shown are kept, for a delete that arrives late between two of them.
Of several changes at one sequence (a tie) only the last one counts.

The first stored row of a key has the values of all older changes, so a batch reads no row before
it. At most two rows of a key are held at a time: the newest row of the open version, and the last
row of the current sequence.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

from silver.fold.law import NO_VALUES, Content, KeyFold
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


class _HeldRow:
    """A row that is held until the changes after it are known.

    `is_first` says that no change stands between it and the newest delete or cut-off before it;
    `rewritten` that its values may differ from those of the stored row. `time` is the newest time
    up to its change, whose own time may be earlier.
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


_APPLIED = ("inserted", "updated", "deleted", "delete_unknown")


class HistoryFold(KeyFold):
    """The history of one key while its stored rows and new changes are folded.

    `rows` has those that are new or differ, so far. Held are `_version`, the newest row of the open
    version, and `_last`, the last change so far.
    """

    __slots__ = (
        "_agree", "_has_begun", "_last", "_life", "_life_has_rows", "_next_may_differ",
        "_stored_row", "_time", "_version", "rows",
    )  # fmt: skip

    def __init__(self, rules: FoldRules, agree: Agree, traces: bool = False) -> None:
        super().__init__(rules, traces=traces)
        self._agree = agree
        self._has_begun = self._life_has_rows = self._next_may_differ = False
        self._life = b""
        self._time: int | None = None
        self._version: _HeldRow | None = None
        self._last: _HeldRow | None = None
        self._stored_row: tuple[bytes, VersionFacts] | None = None
        self.rows: list[HistoryRow] = []

    def fold(self, changes: Changes, begin: int, end: int) -> None:
        """Folds rows in order; a table folded from its log only compares with its stored rows."""
        if not (changes.stored and self._rules.from_log):
            super().fold(changes, begin, end)
            return
        for at in range(begin, end):
            if at in changes.stored:
                self._stored_row = changes.order[at], changes.stored[at]
            else:
                super().fold(changes, at, at + 1)

    def finish(self) -> None:
        """Ends the key and emits the held rows."""
        if self._last is not None:
            self._take_row(self._last)
            self._last = None
        if self._version is not None:
            self._end_version(self._version, None)
            self._version = None

    def sources(self) -> set[int]:
        """The sources that rows to come may still need."""
        held = (row for row in (self._version, self._last) if row is not None)
        rows = ({row.source, *row.content.sources()} for row in held)
        return super().sources().union(*rows)

    def renumber_sources(self, numbers: Mapping[int, int]) -> None:
        """Gives each source its new number."""
        super().renumber_sources(numbers)
        for row in (self._version, self._last):
            if row is not None:
                row.source = numbers[row.source]
                row.content = row.content.renumber_sources(numbers)

    def _take_earlier_delivery(self, changes: Changes, at: int, first: int) -> bool:
        """Puts the earlier delivery in the row of the new one.

        With another change of the sequence between the two, the new one keeps a row of its own,
        which is never shown.
        """
        last = self._last
        if last is None or last.digest != changes.digest[at] or not last.new:
            return False
        self._count("duplicate", first)
        self._call_late()
        self._digests[last.digest] = NO_SOURCE
        order = changes.order[at]
        if self._version is not None and self._version.next_order == last.order:
            self._version.next_order = order
        last.source, last.order, last.new = changes.source[at], order, False
        last.stored = self._stored_facts(changes, at)
        return True

    def _pass_cutoffs(self, order: bytes) -> None:
        super()._pass_cutoffs(order)
        newest = self._cutoffs[bisect_left(self._cutoffs, order) - 1]
        if newest > self._life:
            self._life, self._life_has_rows = newest, False

    def _apply(self, changes: Changes, at: int) -> None:
        row = _HeldRow(changes, at, self._stored_facts(changes, at))
        if (last := self._last) is not None:
            last.next_order = row.order
            (self._emit_lost_tie if len(self._digests) > 1 else self._take_row)(last)
        if not row.new:
            self._call_late()
        time, is_whole = changes.time[at], False
        if not self._has_begun:
            time, is_whole = self._begin(row, time)
        self._enter_life(row, time)
        if row.upsert or is_whole:
            absent = None if is_whole else changes.absent
            self._upsert(changes, at, None if absent is None else absent[at])
        self._set_values(row)
        if not row.upsert:
            self._delete(changes, at)
            self._life, self._life_has_rows = row.order, False
        self._last = row

    def _stored_facts(self, changes: Changes, at: int) -> VersionFacts | None:
        """The facts of the stored row of a change."""
        if self._stored_row is None:
            return changes.stored.get(at)
        return self._stored_row[1] if self._stored_row[0] == changes.order[at] else None

    def _begin(self, row: _HeldRow, time: int | None) -> tuple[int | None, bool]:
        """Begins with the first row; its time, and whether it is a stored one with right values.

        A delete has values where it keeps those of the deleted row.
        """
        self._has_begun, stored = True, row.stored
        if stored is None:
            return time, False
        self._life = max(self._life, stored.life)
        if self._life != stored.life:
            return stored.time, False
        row.from_time, row.from_order = stored.valid_from, stored.from_order
        return stored.time, row.upsert or bool(stored.kept)

    def _enter_life(self, row: _HeldRow, time: int | None) -> None:
        """Places the row after the newest delete or cut-off, and in time.

        It begins no earlier than the cut-off that ends the version before it.
        """
        self._time = _find_newest(self._time, time)
        ending = None if self._version is None else self._find_ending(self._version, row)
        row.time = _find_newest(self._time, None if ending is None else ending.time)
        row.life, row.is_first = self._life, not self._life_has_rows
        self._life_has_rows = True
        self._next_may_differ |= row.stored is not None and row.stored.life != row.life

    def _set_values(self, row: _HeldRow) -> None:
        """Gives the row its values; finds whether those of a stored row may differ now.

        They may if an older change is new, unless the row's change carries all columns.
        """
        rewritten = self._next_may_differ
        if row.upsert:
            row.content = self.content()
            rewritten = row.rewritten = rewritten and bool(self.parts)
        elif self._rules.keeps_deleted and self.newest_upsert[0] > self._rules.newest_cutoff:
            row.content, row.rewritten = self.content(), rewritten
        self._next_may_differ = row.stored is None or rewritten

    def _take_row(self, row: _HeldRow) -> None:
        """Takes the last row at a sequence into a version, as the next change is known."""
        before, self._time = self._version, row.time
        if not row.upsert:
            if before is not None:
                self._end_version(before, row)
                self._version = None
            self._emit_delete(row)
            return
        self._count_applied(row)
        if row.from_time is None:
            row.from_time, row.from_order = row.time, row.order
        if before is not None:
            if self._continues(before, row) and self._agree(before.content, row.content):
                row.from_time, row.from_order = before.from_time, before.from_order
                self._emit(before)
            else:
                self._end_version(before, row)
        self._version = row

    def _emit_lost_tie(self, row: _HeldRow) -> None:
        """Emits a row after which another one came at its sequence."""
        row.time = self._time
        if not row.upsert:
            self._emit_delete(row)
            return
        if row.new:
            self._count("superseded", row.source)
        row.from_time = row.from_order = None
        self._emit(row)

    def _emit_delete(self, row: _HeldRow) -> None:
        self._count_applied(row)
        row.from_time = row.from_order = None
        self._emit(row)

    def _end_version(self, row: _HeldRow, following: _HeldRow | None) -> None:
        """Emits a version's newest row; a cut-off or else the following row ends the version."""
        cutoff = self._find_ending(row, following)
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
        self, row: _HeldRow, shown: bool = False, end: bytes | None = None, time: int | None = None
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

    def _count_applied(self, row: _HeldRow) -> None:
        if not row.new:
            return
        if row.order < self._rules.newest_cutoff:
            outcome = "superseded"
        elif row.upsert:
            outcome = "inserted" if row.is_first else "updated"
        else:
            outcome = "delete_unknown" if row.is_first else "deleted"
        self._count(outcome, row.source)

    def _call_late(self) -> None:
        """Counts what was applied so far as late: a change of an earlier batch comes after it."""
        applied = sum(self.outcomes.pop(name, 0) for name in _APPLIED) if self.outcomes else 0
        if not applied:
            return
        self.outcomes["late"] = self.outcomes.get("late", 0) + applied
        if self.notes is not None:
            late = {source: "late" for source, name in self.notes.items() if name in _APPLIED}
            self.notes |= late

    def _continues(self, row: _HeldRow, following: _HeldRow) -> bool:
        """Whether only cut-offs that end no version stand between a row and the following one."""
        if row.life == following.life:
            return True
        passed = bisect_left(self._cutoffs, following.order)
        begins_at_cutoff = passed > 0 and self._cutoffs[passed - 1] == following.life
        return begins_at_cutoff and self._find_ending(row, following) is None

    def _find_ending(self, row: _HeldRow, following: _HeldRow | None) -> Cutoff | None:
        """The first cut-off before the following change that ends the row's version."""
        if row.order > self._rules.newest_cutoff:
            return None
        begin = bisect_left(self._cutoffs, row.order)
        end = None if following is None else bisect_left(self._cutoffs, following.order)
        passed = self._rules.cutoffs[begin:end]
        if following is not None and following.upsert:
            passed = tuple(c for c in passed if not c.spares(following.order, following.own_time))
        return passed[0] if passed else None


def _find_newest(time: int | None, other: int | None) -> int | None:
    """The later of two times, of which either may be unknown."""
    return other if time is None or (other is not None and other > time) else time
