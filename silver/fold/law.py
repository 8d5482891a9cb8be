"""The convergence law: the changes of one key are applied in order, one after the other.

A row follows from the set of the key's changes and from nothing else: per column the value of the
newest change that carried the column since the newest delete or cut-off. So a row does not depend
on the order of arrival, on how the changes were cut into batches, or on how often they came.

`KeyFold` is that loop. Stored rows are changes too and stand among the new ones in order, so a late
change needs no rule of its own. `CurrentFold` keeps the last row of a key, `HistoryFold` makes one
row of each change.

A redelivery is recognised by its sequence and digest, and changes nothing. Of different changes at
one sequence (a tie) the one whose first delivery came later is the newer one: arrival is the end of
the order key.

A row that moves to another key may lack values that only the old key's changes carry. Those changes
are among the changes of the new key, marked with their own key. They are folded apart, into the
row of the old key, and the change that moved the row takes the values from there.

Values are not looked at: a row of the input is a number (its source), and what comes out says which
source gives which columns.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from silver.fold.order_key import sequence_of
from silver.fold.rules import NOWHERE, Changes, FoldRules

Digests = dict[int, int]
"""The digests of the changes at one sequence: the source of a new change, NOWHERE of others."""

Given = tuple[bytes, int, Digests]
"""What gives values: order key and source of a change, and the digests at its sequence."""

NOTHING: Given = (b"", NOWHERE, {})
_NEVER = b"\xff"
"""Higher than every order key, and the prefix of none."""


class Content(NamedTuple):
    """Where the values of a row come from: one source, and others for some columns."""

    source: int
    parts: Mapping[str, Given]

    def moved(self, moved: Mapping[int, int]) -> "Content":
        """The content with renumbered sources."""
        return Content(moved[self.source], _renumber_parts(self.parts, moved))

    def sources(self) -> set[int]:
        """All sources of the row's values."""
        return {self.source, *(source for _, source, _ in self.parts.values())}

    def source_of(self, column: str) -> int:
        """The source of a column."""
        part = self.parts.get(column)
        return self.source if part is None else part[1]


EMPTY = Content(NOWHERE, {})


class KeyFold:
    """The row of one key while its changes are folded.

    Attributes:
        newest: the newest change.
        row: the newest upsert, which gives every column but those in `parts`. A deleted row keeps
            its values until the next upsert.
        parts: what gives each column that the newest upsert does not give; never changed in place.
        removed: the newest delete before that upsert.
        outcomes: the new changes so far by outcome, where that is final.
        notes: the outcome of each new change by its source, where `traces` asks for it.
    """

    __slots__ = (
        "_ahead", "_columns", "_cutoffs", "_digests", "_floor", "_grouped", "_known", "_others",
        "_own", "_rules", "_sequence", "deleted", "newest", "notes", "outcomes", "parts", "removed",
        "row", "ties",
    )  # fmt: skip

    def __init__(
        self,
        rules: FoldRules,
        floor: bytes = b"",
        others: "dict[int, KeyFold] | None" = None,
        traces: bool = False,
    ) -> None:
        """Begins a key: changes below `floor` do not count; `others` are keys it came from."""
        self._rules, self._floor = rules, floor
        self._columns, self._grouped = rules.column_set, rules.grouped
        self._cutoffs: Sequence[bytes] = () if floor else rules.cutoff_orders
        self._ahead = self._cutoffs[0] if self._cutoffs else _NEVER
        self._others: dict[int, KeyFold] = {} if others is None else others
        self._sequence = _NEVER
        self._digests: Digests = {}
        self._known: dict[bytes, Digests] = {}
        self._own: dict[str, str] = {}
        self.newest = self.row = self.removed = NOTHING
        self.parts: Mapping[str, Given] = {}
        self.deleted = False
        self.outcomes: dict[str, int] = {}
        self.ties = 0
        self.notes: dict[int, str] | None = {} if traces else None

    def fold(self, changes: Changes, begin: int, end: int) -> None:
        """Folds the changes `begin` to `end` (exclusive), which are in order, into the row."""
        belongs_to = changes.belongs_to
        for at in range(begin, end):
            other = None if belongs_to is None else belongs_to[at]
            if other is None:
                self.take(changes, at)
            else:
                self._fold_of(other).take(changes, at)

    def take(self, changes: Changes, at: int) -> None:
        """Takes the next change of the key."""
        order = changes.order[at]
        if order < self._floor:
            return
        if not order.startswith(self._sequence):
            self._begin_sequence(order)
        if self._digests:
            if self._came_before(changes, at):
                return
        else:
            new = changes.new[at]
            self._digests[changes.digest[at]] = changes.source[at] if new else NOWHERE
        if order > self._ahead:
            self._pass_cutoffs(order)
        self._place(changes, at)

    def content(self) -> Content:
        """Where the row's values come from."""
        return Content(self.row[1], self.parts)

    def sources(self) -> set[int]:
        """The sources that the row may still need."""
        needed = {NOWHERE, self.newest[1], *self.content().sources()}
        for other in self._others.values():
            needed |= other.content().sources()
        return needed

    def move_sources(self, moved: Mapping[int, int]) -> None:
        """Renumbers the sources."""
        for each in (self, *self._others.values()):
            each.row, each.parts = _renumber(each.row, moved), _renumber_parts(each.parts, moved)
            if each is self:
                each.newest = _renumber(each.newest, moved)

    def _fold_of(self, key: int) -> "KeyFold":
        if key not in self._others:
            self._others[key] = KeyFold(self._rules, self._floor, self._others)
        return self._others[key]

    def _begin_sequence(self, order: bytes) -> None:
        self._sequence = sequence_of(order)
        self._digests = self._known.pop(self._sequence, {}) if self._known else {}

    def _came_before(self, changes: Changes, at: int) -> bool:
        """Whether a change at a known sequence is a redelivery; counts it, or the tie.

        A dead letter that was replayed may stand before its earlier delivery in order. Then the
        earlier delivery counts, at its own place, and the new one is the duplicate.
        """
        digest, new, here = changes.digest[at], changes.new[at], self._digests
        first = here.get(digest)
        if first is None:
            self.ties += new or NOWHERE not in here.values()
        elif new:
            self._count("duplicate", changes.source[at])
            return True
        elif first == NOWHERE or self._replaces(changes, at, first):
            return True
        here[digest] = changes.source[at] if new else NOWHERE
        return False

    def _replaces(self, _changes: Changes, _at: int, first: int) -> bool:
        """Takes an earlier delivery after the new one; whether nothing is left to do."""
        self._count("duplicate", first)
        return False

    def _pass_cutoffs(self, order: bytes) -> None:
        """What a row knows from before a cut-off is gone."""
        at = bisect_left(self._cutoffs, order)
        self._ahead = self._cutoffs[at] if at < len(self._cutoffs) else _NEVER
        self._forget()

    def _forget(self) -> None:
        self.row, self.parts, self._own = NOTHING, {}, {}

    def _place(self, changes: Changes, at: int) -> None:
        if changes.upsert[at]:
            self._upsert(changes, at, changes.absent[at] if changes.absent is not None else None)
        else:
            self._delete(changes, at)

    def _delete(self, changes: Changes, at: int) -> None:
        self.newest = (changes.order[at], changes.source[at], self._digests)
        self.deleted = True

    def _upsert(self, changes: Changes, at: int, absent: Collection[str] | None) -> None:
        """Makes an upsert the row; the columns it lacks stay as they are.

        A row that was deleted starts from an empty one.
        """
        given = (changes.order[at], changes.source[at], self._digests)
        if self.deleted:
            self.removed, self.deleted = self.newest, False
            self._forget()
        if self._grouped or changes.moved_from is not None:
            self.parts = self._special_parts(changes, at, absent or ())
        elif absent:
            parts, before = self.parts, self.row
            self.parts = {c: parts.get(c, before) for c in absent if c in self._columns}
        elif self.parts:
            self.parts = {}
        self.row = self.newest = given

    def _special_parts(
        self, changes: Changes, at: int, absent: Collection[str]
    ) -> Mapping[str, Given]:
        """What gives the columns that an upsert lacks, of a moved row or with columns' own orders.

        A value from the old key stands at the order of the change that moved the row.
        """
        taken = self._find_taken(changes, at, absent)
        lacks = [c for c in absent if c not in taken]
        if self._grouped:
            sequences = changes.own_sequences[at] if changes.own_sequences is not None else None
            lacks += self._find_outranked(lacks, sequences or {})
        parts, before = self.parts, self.row
        return taken | {c: parts.get(c, before) for c in lacks if c in self._columns}

    def _find_taken(self, changes: Changes, at: int, absent: Collection[str]) -> dict[str, Given]:
        """What gives the absent columns of a change that moved a row here, where that is known."""
        old = changes.moved_from[at] if changes.moved_from is not None else None
        other = None if old is None else self._others.get(old)
        if other is None or not other.row[0]:
            return {}
        order, content, here = changes.order[at], other.content(), self._digests
        return {c: (order, content.source_of(c), here) for c in absent if c in self._columns}

    def _find_outranked(self, absent: Collection[str], sequences: Mapping[str, str]) -> list[str]:
        """The carried columns of which a change with a higher sequence of their own is known."""
        lost = []
        for column in self._grouped:
            if column in absent:
                continue
            mine = sequences.get(column) or ""
            if mine < self._own.get(column, ""):
                lost.append(column)
            else:
                self._own[column] = mine
        return lost

    def _count(self, outcome: str, source: int) -> None:
        """Counts the outcome of a new change."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if self.notes is not None:
            self.notes[source] = outcome


def _renumber(given: Given, moved: Mapping[int, int]) -> Given:
    return given[0], moved[given[1]], given[2]


def _renumber_parts(parts: Mapping[str, Given], moved: Mapping[int, int]) -> Mapping[str, Given]:
    return {column: _renumber(given, moved) for column, given in parts.items()}
