"""Histories under the law: one row per change of a key, cut into versions.

A row holds the values that the table had at its change's place in order. A version is a run of
upserts that agree on the tracked columns, without a delete between them or a cut-off that ends it.
A snapshot's cut-off ends the versions of rows that it does not show, a truncate those of rows that
are not back at the same time. A version's newest row is shown, and says where the version begins
and ends. Rows that are not shown stay: a delete that arrives late between two of them must find
them. Of several changes at one sequence (a tie) only the last one counts.

The first stored row of a key carries all that is older, so a batch reads no row before it. At most
two rows of a key are held at a time: the row that may still turn out to be its version's newest
one, and the last row of the current sequence.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

from silver.fold.law import EMPTY, Content, KeyFold
from silver.fold.rules import NOWHERE, Changes, Cutoff, FoldRules, VersionFacts

Agree = Callable[[Content, Content], bool]
"""Whether two rows agree on the tracked columns; null agrees with null only."""


NOT_TAKEN: frozenset[str] = frozenset()


class HistoryRow(NamedTuple):
    """A row of the history that is new or differs.

    `source` is its change, `content` its values, and `taken` names columns that the change lacks
    and whose values come from the key that the row moved from.
    """

    source: int
    content: Content
    facts: VersionFacts
    taken: frozenset[str] = NOT_TAKEN


class _PlacedRow:
    """A change in its place, while what comes after it is not known."""

    __slots__ = (
        "alone", "content", "digest", "from_order", "from_time", "life", "new", "next_order",
        "order", "rewritten", "source", "stored", "time", "upsert",
    )  # fmt: skip

    def __init__(self, changes: Changes, at: int, stored: VersionFacts | None) -> None:
        self.source, self.order, self.new = changes.source[at], changes.order[at], changes.new[at]
        self.digest, self.upsert, self.stored = changes.digest[at], changes.upsert[at], stored
        self.content, self.life = EMPTY, b""
        self.alone = self.rewritten = False
        self.from_time: int | None = None
        self.time: int | None = None
        self.from_order: bytes | None = None
        self.next_order: bytes | None = None


_APPLIED = ("inserted", "updated", "deleted", "delete_unknown")


class HistoryFold(KeyFold):
    """The history of one key while its stored rows and new changes are folded.

    `rows` has those that are new or differ, so far.
    """

    __slots__ = (
        "_agree", "_begun", "_disturbed", "_last", "_life", "_lived", "_open", "_paired", "_time",
        "rows",
    )  # fmt: skip

    def __init__(self, rules: FoldRules, agree: Agree, traces: bool = False) -> None:
        super().__init__(rules, traces=traces)
        self._agree = agree
        self._begun = self._lived = self._disturbed = False
        self._life = b""
        self._time: int | None = None
        self._open: _PlacedRow | None = None
        self._last: _PlacedRow | None = None
        self._paired: tuple[bytes, VersionFacts] | None = None
        self.rows: list[HistoryRow] = []

    def fold(self, changes: Changes, begin: int, end: int) -> None:
        """Folds rows in order; stored rows of a table folded from its log are compared only."""
        if not (changes.stored and self._rules.from_log):
            super().fold(changes, begin, end)
            return
        for at in range(begin, end):
            if at in changes.stored:
                self._paired = changes.order[at], changes.stored[at]
            else:
                super().fold(changes, at, at + 1)

    def finish(self) -> int:
        """Ends the key: what was held becomes rows. Returns the source of the newest change."""
        newest = NOWHERE if self._last is None else self._last.source
        if self._last is not None:
            self._close(self._last)
            self._last = None
        if self._open is not None:
            self._end_version(self._open, None)
            self._open = None
        return newest

    def sources(self) -> set[int]:
        """The sources that rows to come may still need."""
        held = (row for row in (self._open, self._last) if row is not None)
        rows = ({row.source, *row.content.sources()} for row in held)
        return super().sources().union(*rows)

    def move_sources(self, moved: Mapping[int, int]) -> None:
        """Renumbers the sources."""
        super().move_sources(moved)
        for row in (self._open, self._last):
            if row is not None:
                row.source, row.content = moved[row.source], row.content.moved(moved)

    def _replaces(self, changes: Changes, at: int, first: int) -> bool:
        """The earlier delivery takes the row of the new one.

        With another change of the sequence between the two, the new one gets a row that is never
        shown.
        """
        last = self._last
        if last is None or last.digest != changes.digest[at] or not last.new:
            return False
        self._count("duplicate", first)
        self._call_late()
        self._digests[last.digest] = NOWHERE
        order = changes.order[at]
        if self._open is not None and self._open.next_order == last.order:
            self._open.next_order = order
        last.source, last.order, last.new = changes.source[at], order, False
        last.stored = self._stored_facts(changes, at)
        return True

    def _pass_cutoffs(self, order: bytes) -> None:
        super()._pass_cutoffs(order)
        newest = self._cutoffs[bisect_left(self._cutoffs, order) - 1]
        if newest > self._life:
            self._life, self._lived = newest, False

    def _place(self, changes: Changes, at: int) -> None:
        row = _PlacedRow(changes, at, self._stored_facts(changes, at))
        if (last := self._last) is not None:
            last.next_order = row.order
            (self._lose if len(self._digests) > 1 else self._close)(last)
        if not row.new:
            self._call_late()
        time, is_whole = changes.time[at], False
        if not self._begun and row.stored is not None:
            time, is_whole = row.stored.time, self._begin_at(row, row.stored)
        self._begun = True
        self._enter_life(row, time)
        if row.upsert or is_whole:
            absent = changes.absent if not is_whole else None
            self._upsert(changes, at, None if absent is None else absent[at])
        self._resolve(row)
        if not row.upsert:
            self._delete(changes, at)
            self._life, self._lived = row.order, False
        self._last = row

    def _stored_facts(self, changes: Changes, at: int) -> VersionFacts | None:
        """What the stored row of a change says."""
        if self._paired is None:
            return changes.stored.get(at)
        return self._paired[1] if self._paired[0] == changes.order[at] else None

    def _begin_at(self, row: _PlacedRow, stored: VersionFacts) -> bool:
        """Begins with the first stored row, in its life; whether all values of it are right.

        A delete has values where it keeps those of the deleted row.
        """
        self._life = max(self._life, stored.life)
        if self._life != stored.life:
            return False
        row.from_time, row.from_order = stored.valid_from, stored.from_order
        return row.upsert or bool(stored.kept)

    def _enter_life(self, row: _PlacedRow, time: int | None) -> None:
        """Places the row after the newest delete or cut-off, and in time."""
        if self._time is None or (time is not None and time > self._time):
            self._time = time
        row.life, row.time, row.alone = self._life, self._time, not self._lived
        self._lived = True
        self._disturbed |= row.stored is not None and row.stored.life != row.life

    def _resolve(self, row: _PlacedRow) -> None:
        """Gives the row its values; finds whether those of a stored row may differ now.

        They may if a change that came before it in order is new, unless the row lacks nothing.
        """
        rewritten = self._disturbed
        if row.upsert:
            row.content = self.content()
            rewritten = row.rewritten = rewritten and bool(self.parts)
        elif self._rules.keeps_deleted and self.row[0] > self._rules.newest_cutoff:
            row.content, row.rewritten = self.content(), rewritten
        self._disturbed = row.stored is None or rewritten

    def _close(self, row: _PlacedRow) -> None:
        """Takes the last row at a sequence, which counts, with the next change known."""
        before = self._open
        if not row.upsert:
            if before is not None:
                self._end_version(before, row)
                self._open = None
            self._emit_delete(row)
            return
        self._count_applied(row)
        if row.from_time is None:
            row.from_time, row.from_order = row.time, row.order
        if before is not None:
            if self._goes_on(before, row) and self._agree(before.content, row.content):
                row.from_time, row.from_order = before.from_time, before.from_order
                self._emit(before, False, None, None)
            else:
                self._end_version(before, row)
        self._open = row

    def _lose(self, row: _PlacedRow) -> None:
        """Takes a row after which another one came at its sequence."""
        if not row.upsert:
            self._emit_delete(row)
            return
        if row.new:
            self._count("superseded", row.source)
        row.from_time = row.from_order = None
        self._emit(row, False, None, None)

    def _emit_delete(self, row: _PlacedRow) -> None:
        self._count_applied(row)
        row.from_time = row.from_order = None
        self._emit(row, False, None, None)

    def _end_version(self, row: _PlacedRow, by: _PlacedRow | None) -> None:
        """Emits a version's newest row with the version's end: a change, a cut-off, or none yet."""
        cutoff = self._find_ending(row, by)
        if cutoff is not None:
            order, time = cutoff.order, cutoff.time
        elif by is not None:
            order, time = by.order, by.time
        else:
            self._emit(row, True, None, None)
            return
        if time is None or (row.from_time is not None and row.from_time > time):
            time = row.from_time
        self._emit(row, True, order, time)

    def _emit(
        self, row: _PlacedRow, shown: bool, to_order: bytes | None, valid_to: int | None
    ) -> None:
        keeps = self._rules.keeps_deleted and not row.upsert
        kept = row.content.source != NOWHERE if keeps else None
        facts = VersionFacts(
            row.next_order, shown, shown and to_order is None, row.time, row.from_time, valid_to,
            row.from_order, to_order, row.life, kept,
        )  # fmt: skip
        if row.stored is None or row.rewritten or facts != row.stored:
            taken = NOT_TAKEN
            if row.content.parts:
                parts = row.content.parts.items()
                taken = frozenset(c for c, (order, _, _) in parts if order == row.order)
            self.rows.append(HistoryRow(row.source, row.content, facts, taken))

    def _count_applied(self, row: _PlacedRow) -> None:
        if not row.new:
            return
        if row.order < self._rules.newest_cutoff:
            outcome = "superseded"
        elif row.upsert:
            outcome = "inserted" if row.alone else "updated"
        else:
            outcome = "delete_unknown" if row.alone else "deleted"
        self._count(outcome, row.source)

    def _call_late(self) -> None:
        """Counts what was applied so far as late: a change of an earlier batch comes after it."""
        moved = sum(self.outcomes.pop(name, 0) for name in _APPLIED) if self.outcomes else 0
        if not moved:
            return
        self.outcomes["late"] = self.outcomes.get("late", 0) + moved
        if self.notes is not None:
            late = {source: "late" for source, name in self.notes.items() if name in _APPLIED}
            self.notes |= late

    def _goes_on(self, row: _PlacedRow, to: _PlacedRow) -> bool:
        """Whether only cut-offs that end no version stand between a row and the next one."""
        if row.life == to.life:
            return True
        passed = bisect_left(self._cutoffs, to.order)
        of_cutoff = passed > 0 and self._cutoffs[passed - 1] == to.life
        return of_cutoff and self._find_ending(row, to) is None

    def _find_ending(self, row: _PlacedRow, by: _PlacedRow | None) -> Cutoff | None:
        """The first cut-off before the next change that ends the row's version."""
        if row.order > self._rules.newest_cutoff:
            return None
        begin = bisect_left(self._cutoffs, row.order)
        end = None if by is None else bisect_left(self._cutoffs, by.order)
        passed = self._rules.cutoffs[begin:end]
        if by is not None and by.upsert:
            passed = tuple(c for c in passed if not c.spares(by.order, by.time))
        return passed[0] if passed else None
