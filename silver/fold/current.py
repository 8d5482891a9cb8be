"""Current tables under the law: one row per key, the last of all that its changes made.

Read `law.KeyFold` first.

The stored row of a key stands for a few changes: a delete, upserts of single columns, an upsert of
all others, and on a tombstone one more delete. For this it keeps the order keys of its columns
where they differ, and the digests of all changes at the sequences of these keys (`RowFacts`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from silver.fold.law import NO_VALUES, Content, Digests, KeyFold
from silver.fold.order_key import sequence_of
from silver.fold.rules import NO_SOURCE, Changes, FoldRules

_DIGEST_BYTES = 8


class RowFacts(NamedTuple):
    """The columns of a current table's row beside its values.

    Attributes:
        order: order key of the newest change.
        deleted: whether that is a delete; then the row is a tombstone.
        digest: digest of the newest change.
        upsert: order key of the newest upsert; only of a tombstone whose row was known.
        removed: order key of the newest delete before that upsert.
        columns: order key of each column that the newest upsert does not give; empty where no
            change has carried the column since the delete.
        changes: for each sequence of these order keys, the sequence and the digests (8 bytes each,
            sorted) of the changes that have it, without `digest`.
    """

    order: bytes
    deleted: bool
    digest: int
    upsert: bytes | None = None
    removed: bytes | None = None
    columns: Mapping[str, bytes] | None = None
    changes: tuple[bytes, ...] | None = None

    @property
    def newest_upsert(self) -> bytes:
        """Order key of the newest upsert; empty where none is known."""
        return (self.upsert or b"") if self.deleted else self.order


class CurrentFold(KeyFold):
    """The row of one key of a current table while its changes are folded.

    Of a key's new changes one at most counts as applied: the newest, if no stored one is newer. If
    one is, one of them counts as `late` where they gave a live row values. Others are superseded.

    Attributes:
        digest: digest of the newest change.
        stored: the facts of the stored row.
    """

    __slots__ = (
        "_has_new_upsert", "_is_new", "_next_stored", "_received", "_stored_changes", "_was_live",
        "digest", "stored",
    )  # fmt: skip

    def __init__(self, rules: FoldRules, traces: bool = False) -> None:
        super().__init__(rules, rules.newest_cutoff, traces=traces)
        self.digest = self._received = self._next_stored = 0
        self._has_new_upsert = self._is_new = self._was_live = False
        self.stored: RowFacts | None = None
        self._stored_changes: Changes | None = None

    def begin(self, stored: RowFacts, source: int, absent: Sequence[str] = ()) -> None:
        """Begins with the stored row; only `differs` uses it in a table folded from its log.

        `absent` names columns that came to the table after the row was written.
        """
        columns = {c: b"" for c in absent} | dict(stored.columns or {})
        self.stored = stored._replace(columns=columns) if absent else stored
        if not self._rules.from_log:
            self._stored_changes = _expand_row(self.stored, source)
            self._stored_digests = _read_digests(stored)

    def fold(self, changes: Changes, begin: int, end: int) -> None:
        """Folds changes and, each in its turn, the changes that the stored row stands for."""
        self._received += sum(changes.new[begin:end])
        while self._stored_changes is not None and begin < end:
            self._take_stored(changes.order[begin])
            if self._stored_changes is not None:
                super().fold(changes, begin, begin + 1)
                begin += 1
        super().fold(changes, begin, end)

    def finish(self) -> None:
        """Ends the key."""
        self._take_stored(None)

    def _take_stored(self, limit: bytes | None) -> None:
        """Applies the stored changes up to an order key, or all that are left."""
        stored = self._stored_changes
        if stored is None:
            return
        for at in range(self._next_stored, len(stored.order)):
            order = stored.order[at]
            if limit is not None and order > limit:
                self._next_stored = at
                return
            if order >= self._floor:
                if not order.startswith(self._sequence):
                    self._begin_sequence(order)
                self._apply(stored, at)
        self._stored_changes = None

    def _apply(self, changes: Changes, at: int) -> None:
        """Applies a change; `_was_live` is of the last stored one, the new upsert came since."""
        upsert, self._is_new, self.digest = changes.upsert[at], changes.new[at], changes.digest[at]
        if upsert:
            self._upsert(changes, at, changes.absent[at] if changes.absent is not None else None)
        else:
            self._delete(changes, at)
        if self._is_new:
            self._has_new_upsert = self._has_new_upsert or upsert
        else:
            self._was_live, self._has_new_upsert = upsert, False

    def facts(self) -> RowFacts:
        """The facts of the key's row, to be stored."""
        order, _, digests = self.newest
        plain = not (self.deleted or self.removed[0] or self.parts)
        if plain and len(digests) < 2 and self.digest in digests:
            return RowFacts(order, False, self.digest)
        upsert = self.newest_upsert[0] if self.deleted else b""
        return RowFacts(
            order, self.deleted, self.digest, upsert or None, self.removed[0] or None,
            self._find_column_orders(), tuple(self._list_known_changes()) or None,
        )  # fmt: skip

    def differs(self, facts: RowFacts) -> bool:
        """Whether the row with these facts differs from the stored one, so that it is written."""
        return bool(facts.order) and facts != self.stored

    def keeps_values(self) -> bool:
        """Whether all values are those of the stored row."""
        stored = self.stored
        if stored is None or self.newest_upsert[0] != stored.newest_upsert:
            return False
        return self._find_column_orders() == stored.columns

    def content(self) -> Content:
        """Where the row's values come from; nowhere while no upsert is known."""
        return super().content() if self.newest_upsert[0] else NO_VALUES

    def count(self) -> Mapping[str, int]:
        """The outcomes of the new changes: adds all others to the duplicates, counted by `fold`."""
        unique = self._received - self.outcomes.get("duplicate", 0)
        applied = self._find_applied_outcome() if unique else None
        if applied is not None:
            self.outcomes[applied] = 1
            unique -= 1
            if self.notes is not None and self._is_new:
                self.notes[self.newest[1]] = applied
        if unique:
            self.outcomes["superseded"] = unique
        return self.outcomes

    def _find_applied_outcome(self) -> str | None:
        if self._is_new:
            if self.deleted:
                return "deleted" if self._was_live or self._has_new_upsert else "delete_unknown"
            return "updated" if self._was_live else "inserted"
        is_empty = self.deleted or not self.newest_upsert[0]
        return None if is_empty or self.keeps_values() else "late"

    def sources(self) -> set[int]:
        """The sources that the row may still need."""
        stored = self._stored_changes
        return super().sources() | ({stored.source[-1]} if stored is not None else set())

    def renumber_sources(self, numbers: Mapping[int, int]) -> None:
        """Gives each source its new number."""
        super().renumber_sources(numbers)
        if (stored := self._stored_changes) is not None:
            sources = [numbers[stored.source[-1]]] * len(stored.source)
            self._stored_changes = stored._replace(source=sources)

    def _find_column_orders(self) -> dict[str, bytes] | None:
        """`RowFacts.columns`."""
        newest = self.newest_upsert[0]
        return {c: order for c, (order, _, _) in self.parts.items() if order != newest} or None

    def _list_known_changes(self) -> Iterator[bytes]:
        """The entries of `RowFacts.changes`."""
        changes = (self.newest, self.newest_upsert, self.removed, *self.parts.values())
        by_sequence = {sequence_of(order): digests for order, _, digests in changes if order}
        newest = sequence_of(self.newest[0]) if self.newest[0] else b""
        for sequence, digests in sorted(by_sequence.items()):
            others = digests.keys() - ({self.digest} if sequence == newest else set())
            if others:
                yield sequence + b"".join(map(pack_digest, sorted(others)))


def pack_digest(digest: int) -> bytes:
    """A digest as `RowFacts.changes` has it."""
    return digest.to_bytes(_DIGEST_BYTES, "big", signed=True)


def _expand_row(stored: RowFacts, source: int) -> Changes:
    """The changes that a stored row stands for, in order."""
    upsert, columns = stored.newest_upsert, stored.columns or {}
    changes: list[tuple[bytes, bool, list[str] | None]] = []
    if stored.removed:
        changes.append((stored.removed, False, None))
    # gives the columns of this order; the newest upsert replaces all that are not in `columns`
    for order in sorted({*columns.values()} - {b""}):
        changes.append((order, True, [c for c, key in columns.items() if key != order]))
    if upsert:
        changes.append((upsert, True, [*columns] or None))
    if stored.deleted:
        changes.append((stored.order, False, None))
    orders, upserts, absent = zip(*changes, strict=True)
    digests, size = [stored.digest] * len(changes), len(changes)
    return Changes([source] * size, orders, upserts, digests, [False] * size, absent)


def _read_digests(stored: RowFacts) -> dict[bytes, Digests]:
    """The digests of the changes that a stored row knows, by sequence."""
    by_sequence: dict[bytes, Digests] = {}
    for entry in stored.changes or ():
        sequence = sequence_of(entry)
        ends = range(len(sequence) + _DIGEST_BYTES, len(entry) + 1, _DIGEST_BYTES)
        digests = (
            int.from_bytes(entry[at - _DIGEST_BYTES : at], "big", signed=True) for at in ends
        )
        by_sequence[sequence] = dict.fromkeys(digests, NO_SOURCE)
    by_sequence.setdefault(sequence_of(stored.order), {})[stored.digest] = NO_SOURCE
    return by_sequence
