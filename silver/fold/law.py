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
are among the changes of the new key, marked with the old key. A fold of their own makes the row of
the old key from them, and the change that moved the row takes the values from there.

Values are not read: the number of an input row is its source, and the result of a fold says which
source gives which columns.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from silver.fold.order_key import sequence_of
from silver.fold.rules import NO_SOURCE, Changes, FoldRules

Digests = dict[int, int]
"""The changes at one sequence by digest: the source of a new change, NO_SOURCE for others."""

ChangeRef = tuple[bytes, int, Digests]
"""A change that was applied: its order key, its source, and the digests at its sequence."""

Parts = Mapping[str, ChangeRef]
"""By column, the change that gives its value."""

NO_CHANGE: ChangeRef = (b"", NO_SOURCE, {})
_ABOVE_ALL = b"\xff"
"""Higher than every order key, and the prefix of none."""


class Content(NamedTuple):
    """Where the values of a row come from: one source, but for the columns in `parts`."""

    source: int
    parts: Parts

    def renumber_sources(self, numbers: Mapping[int, int]) -> "Content":
        """The content with the new number of each source."""
        return Content(numbers[self.source], _renumber_parts(self.parts, numbers))

    def sources(self) -> set[int]:
        """All sources of the row's values."""
        return {self.source, *(source for _, source, _ in self.parts.values())}

    def source_of(self, column: str) -> int:
        """The source of a column."""
        part = self.parts.get(column)
        return self.source if part is None else part[1]


NO_VALUES = Content(NO_SOURCE, {})


class KeyFold:
    """The row of one key while its changes are folded.

    Attributes:
        newest: the newest change.
        newest_upsert: gives every column but those in `parts`. A deleted row keeps its values until
            the next upsert.
        parts: what gives the other columns; never changed in place.
        removed: the newest delete before that upsert.
        outcomes: how many new changes have an outcome, where that is final.
        ties: how many new changes came at a sequence that has another change.
        notes: the outcome of each new change by its source, with `traces` only.
    """

    __slots__ = (
        "_columns", "_cutoffs", "_digests", "_floor", "_group_sequences", "_grouped",
        "_next_cutoff", "_old_keys", "_rules", "_sequence", "_stored_digests", "deleted", "newest",
        "newest_upsert", "notes", "outcomes", "parts", "removed", "ties",
    )  # fmt: skip

    def __init__(
        self,
        rules: FoldRules,
        floor: bytes = b"",
        old_keys: "dict[int, KeyFold] | None" = None,
        traces: bool = False,
    ) -> None:
        """Begins a key: changes below `floor` do not count; its row may come from `old_keys`."""
        self._rules, self._floor = rules, floor
        self._columns, self._grouped = rules.column_set, rules.grouped
        self._cutoffs: Sequence[bytes] = () if floor else rules.cutoff_orders
        self._next_cutoff = self._cutoffs[0] if self._cutoffs else _ABOVE_ALL
        self._old_keys: dict[int, KeyFold] = {} if old_keys is None else old_keys
        self._sequence = _ABOVE_ALL
        self._digests: Digests = {}
        self._stored_digests: dict[bytes, Digests] = {}
        self._group_sequences: dict[str, str] = {}
        self.newest = self.newest_upsert = self.removed = NO_CHANGE
        self.parts: Parts = {}
        self.deleted = False
        self.outcomes: dict[str, int] = {}
        self.ties = 0
        self.notes: dict[int, str] | None = {} if traces else None

    def fold(self, changes: Changes, begin: int, end: int) -> None:
        """Folds the changes `begin` to `end` (exclusive), which are in order, into the row."""
        belongs_to = changes.belongs_to
        for at in range(begin, end):
            old_key = None if belongs_to is None else belongs_to[at]
            if old_key is None:
                self.take(changes, at)
            else:
                self._find_old_key(old_key).take(changes, at)

    def take(self, changes: Changes, at: int) -> None:
        """Takes the next change of the key."""
        order = changes.order[at]
        if order < self._floor:
            return
        if not order.startswith(self._sequence):
            self._begin_sequence(order)
        if self._digests:
            if self._is_redelivery(changes, at):
                return
        else:
            new = changes.new[at]
            self._digests[changes.digest[at]] = changes.source[at] if new else NO_SOURCE
        if order > self._next_cutoff:
            self._pass_cutoffs(order)
        self._apply(changes, at)

    def content(self) -> Content:
        """Where the row's values come from."""
        return Content(self.newest_upsert[1], self.parts)

    def sources(self) -> set[int]:
        """The sources that the row may still need."""
        needed = {NO_SOURCE, self.newest[1], *self.content().sources()}
        for old_key in self._old_keys.values():
            needed |= old_key.content().sources()
        return needed

    def renumber_sources(self, numbers: Mapping[int, int]) -> None:
        """Gives each source its new number."""
        self.newest = _renumber(self.newest, numbers)
        for fold in (self, *self._old_keys.values()):
            fold.newest_upsert = _renumber(fold.newest_upsert, numbers)
            fold.parts = _renumber_parts(fold.parts, numbers)

    def _find_old_key(self, key: int) -> "KeyFold":
        if key not in self._old_keys:
            self._old_keys[key] = KeyFold(self._rules, self._floor, self._old_keys)
        return self._old_keys[key]

    def _begin_sequence(self, order: bytes) -> None:
        self._sequence = sequence_of(order)
        self._digests = self._stored_digests.pop(self._sequence, {}) if self._stored_digests else {}

    def _is_redelivery(self, changes: Changes, at: int) -> bool:
        """Whether a change repeats another one at its sequence; counts it, or the tie.

        A dead letter that was replayed may stand before its earlier delivery in order. Then the
        earlier delivery counts, at its own place, and the new one is the duplicate.
        """
        digest, new, digests = changes.digest[at], changes.new[at], self._digests
        first = digests.get(digest)
        if first is None:
            # A stored change makes a tie of this batch where all others at its sequence are new.
            self.ties += new or NO_SOURCE not in digests.values()
        elif new:
            self._count("duplicate", changes.source[at])
            return True
        elif first == NO_SOURCE or self._take_earlier_delivery(changes, at, first):
            return True
        digests[digest] = changes.source[at] if new else NO_SOURCE
        return False

    def _take_earlier_delivery(self, _changes: Changes, _at: int, first: int) -> bool:
        """Takes the earlier delivery of the new change `first`; whether it is applied with that."""
        self._count("duplicate", first)
        return False

    def _pass_cutoffs(self, order: bytes) -> None:
        """Forgets what changes below a cut-off gave, at the first change above it."""
        at = bisect_left(self._cutoffs, order)
        self._next_cutoff = self._cutoffs[at] if at < len(self._cutoffs) else _ABOVE_ALL
        self._forget()

    def _forget(self) -> None:
        self.newest_upsert, self.parts, self._group_sequences = NO_CHANGE, {}, {}

    def _apply(self, changes: Changes, at: int) -> None:
        if changes.upsert[at]:
            self._upsert(changes, at, changes.absent[at] if changes.absent is not None else None)
        else:
            self._delete(changes, at)

    def _delete(self, changes: Changes, at: int) -> None:
        self.newest = (changes.order[at], changes.source[at], self._digests)
        self.deleted = True

    def _upsert(self, changes: Changes, at: int, absent: Collection[str] | None) -> None:
        """Applies an upsert; the columns it lacks keep their values, unless the row was deleted."""
        change = (changes.order[at], changes.source[at], self._digests)
        if self.deleted:
            self.removed, self.deleted = self.newest, False
            self._forget()
        if self._grouped or changes.moved_from is not None:
            self.parts = self._find_parts(changes, at, absent or ())
        elif absent:
            parts, before = self.parts, self.newest_upsert
            self.parts = {c: parts.get(c, before) for c in absent if c in self._columns}
        elif self.parts:
            self.parts = {}
        self.newest_upsert = self.newest = change

    def _find_parts(self, changes: Changes, at: int, absent: Collection[str]) -> Parts:
        """The changes that give columns in place of an upsert: of a moved row, or with groups."""
        taken = self._take_from_old_key(changes, at, absent)
        kept = [c for c in absent if c not in taken]
        if self._grouped:
            sequences = changes.group_sequences[at] if changes.group_sequences is not None else None
            kept += self._find_outranked(kept, sequences or {})
        parts, before = self.parts, self.newest_upsert
        return taken | {c: parts.get(c, before) for c in kept if c in self._columns}

    def _take_from_old_key(
        self, changes: Changes, at: int, absent: Collection[str]
    ) -> dict[str, ChangeRef]:
        """The absent columns that the old key's row gives, at the order of the change itself."""
        moved_from = changes.moved_from[at] if changes.moved_from is not None else None
        old_key = None if moved_from is None else self._old_keys.get(moved_from)
        if old_key is None or not old_key.newest_upsert[0]:
            return {}
        order, content, digests = changes.order[at], old_key.content(), self._digests
        return {c: (order, content.source_of(c), digests) for c in absent if c in self._columns}

    def _find_outranked(self, absent: Collection[str], sequences: Mapping[str, str]) -> list[str]:
        """The carried columns for which a change with a higher sequence of the group came."""
        outranked = []
        for column in self._grouped:
            if column in absent:
                continue
            sequence = sequences.get(column) or ""
            if sequence < self._group_sequences.get(column, ""):
                outranked.append(column)
            else:
                self._group_sequences[column] = sequence
        return outranked

    def _count(self, outcome: str, source: int) -> None:
        """Counts the outcome of a new change."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if self.notes is not None:
            self.notes[source] = outcome


def _renumber(change: ChangeRef, numbers: Mapping[int, int]) -> ChangeRef:
    return change[0], numbers[change[1]], change[2]


def _renumber_parts(parts: Parts, numbers: Mapping[int, int]) -> Parts:
    return {column: _renumber(change, numbers) for column, change in parts.items()}
