"""Histories under the law: one row per change of a key, with the values at its place in order.

Rows are cut into versions by `silver.fold.open_version`. What this module adds to the law is what a
row needs to be stored: its values, its life (what came since the newest delete or cut-off), a time
that never runs back, and whether a stored row of it may differ now. Of several changes at one
sequence (a tie) only the last one counts.

The first stored row of a key has the values of all older changes, so a batch reads no row before
it. At most two rows of a key are held at a time: the newest row of the open version, and the last
row of the current sequence.
"""

from bisect import bisect_left
from collections.abc import Mapping

from silver.fold.law import KeyFold
from silver.fold.open_version import Agree, HeldRow, HistoryRow, OpenVersion
from silver.fold.rules import NO_SOURCE, Changes, FoldRules, VersionFacts

_APPLIED = ("inserted", "updated", "deleted", "delete_unknown")


class _Life:
    """What a key has lived through since its newest delete or cut-off, whose order key is `begin`.

    `has_changes` says whether any change came since; `time` is the newest commit time of the key,
    which no life resets.
    """

    __slots__ = ("begin", "has_changes", "time")

    def __init__(self) -> None:
        self.begin, self.has_changes = b"", False
        self.time: int | None = None

    def begin_anew(self, order: bytes) -> None:
        """A delete or cut-off ends the life before."""
        self.begin, self.has_changes = order, False


class HistoryFold(KeyFold):
    """The history of one key while its stored rows and new changes are folded.

    A change goes through it in two steps: `_apply` makes a row of it, and once the next change is
    known, `_take_row` hands the row to the open version.
    """

    __slots__ = ("_has_begun", "_last", "_life", "_next_may_differ", "_of_stored", "_version")

    def __init__(self, rules: FoldRules, agree: Agree, traces: bool = False) -> None:
        super().__init__(rules, traces=traces)
        self._version, self._life = OpenVersion(rules, agree), _Life()
        self._last: HeldRow | None = None
        self._has_begun = self._next_may_differ = False
        self._of_stored: tuple[bytes, VersionFacts] | None = None

    def fold(self, changes: Changes, begin: int, end: int) -> None:
        """Folds rows in order; a table folded from its log only compares with its stored rows."""
        if not (changes.stored and self._rules.from_log):
            super().fold(changes, begin, end)
            return
        for at in range(begin, end):
            if at in changes.stored:
                self._of_stored = changes.order[at], changes.stored[at]
            else:
                super().fold(changes, at, at + 1)

    def finish(self) -> None:
        """Ends the key: no change follows its last row."""
        if self._last is not None:
            self._take_row(self._last)
            self._last = None
        self._version.finish()

    def take_rows(self) -> list[HistoryRow]:
        """Removes and returns the rows so far that are new or differ."""
        rows, self._version.rows = self._version.rows, []
        return rows

    def sources(self) -> set[int]:
        """The sources that rows to come may still need."""
        rows = ({row.source, *row.content.sources()} for row in self._list_held())
        return super().sources().union(*rows)

    def renumber_sources(self, numbers: Mapping[int, int]) -> None:
        """Gives each source its new number."""
        super().renumber_sources(numbers)
        for row in self._list_held():
            row.source = numbers[row.source]
            row.content = row.content.renumber_sources(numbers)

    def _list_held(self) -> list[HeldRow]:
        return [row for row in (self._version.newest, self._last) if row is not None]

    def _take_earlier_delivery(self, changes: Changes, at: int, first: int) -> bool:
        """Puts the earlier delivery in the row of the new one.

        With another change of the sequence between the two, the new one keeps a row of its own,
        which is never shown.
        """
        last, open_row = self._last, self._version.newest
        if last is None or last.digest != changes.digest[at] or not last.new:
            return False
        self._count("duplicate", first)
        self._call_late()
        self._digests[last.digest] = NO_SOURCE
        order = changes.order[at]
        if open_row is not None and open_row.next_order == last.order:
            open_row.next_order = order
        last.source, last.order, last.new = changes.source[at], order, False
        last.stored = self._find_stored(changes, at)
        if not last.upsert:
            self._life.begin_anew(order)
        return True

    def _pass_cutoffs(self, order: bytes) -> None:
        super()._pass_cutoffs(order)
        newest = self._cutoffs[bisect_left(self._cutoffs, order) - 1]
        if newest > self._life.begin:
            self._life.begin_anew(newest)

    def _apply(self, changes: Changes, at: int) -> None:
        """Makes a row of a change, and hands on the row before it."""
        row = HeldRow(changes, at, self._find_stored(changes, at))
        if (last := self._last) is not None:
            last.next_order = row.order
            (self._take_lost_tie if len(self._digests) > 1 else self._take_row)(last)
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
            self._life.begin_anew(row.order)
        self._last = row

    def _find_stored(self, changes: Changes, at: int) -> VersionFacts | None:
        """The facts of the stored row of a change."""
        if self._of_stored is None:
            return changes.stored.get(at)
        return self._of_stored[1] if self._of_stored[0] == changes.order[at] else None

    def _begin(self, row: HeldRow, time: int | None) -> tuple[int | None, bool]:
        """Begins with the first row; its time, and whether it is a stored one with right values.

        A delete has values where it keeps those of the deleted row.
        """
        self._has_begun, stored, life = True, row.stored, self._life
        if stored is None:
            return time, False
        life.begin = max(life.begin, stored.life)
        if life.begin != stored.life:
            return stored.time, False
        row.from_time, row.from_order = stored.valid_from, stored.from_order
        return stored.time, row.upsert or bool(stored.kept)

    def _enter_life(self, row: HeldRow, time: int | None) -> None:
        """Places the row after the newest delete or cut-off, and in time.

        It begins no earlier than the cut-off that ends the version before it.
        """
        life, before = self._life, self._version.newest
        life.time = _find_newest(life.time, time)
        ending = None if before is None else self._version.find_ending(before, row)
        row.time = _find_newest(life.time, None if ending is None else ending.time)
        row.life, row.is_first = life.begin, not life.has_changes
        life.has_changes = True
        self._next_may_differ |= row.stored is not None and row.stored.life != row.life

    def _set_values(self, row: HeldRow) -> None:
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

    def _take_row(self, row: HeldRow) -> None:
        """Hands the last row at a sequence on, as it is known now what follows it."""
        self._life.time = row.time
        self._count_applied(row)
        (self._version.add_upsert if row.upsert else self._version.add_delete)(row)

    def _take_lost_tie(self, row: HeldRow) -> None:
        """Hands a row on after which another one came at its sequence."""
        row.time = self._life.time
        if not row.upsert:
            self._count_applied(row)
        elif row.new:
            self._count("superseded", row.source)
        self._version.add_outside(row)

    def _count_applied(self, row: HeldRow) -> None:
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


def _find_newest(time: int | None, other: int | None) -> int | None:
    """The later of two times, of which either may be unknown."""
    return other if time is None or (other is not None and other > time) else time
