"""The convergence law for current tables: the row of a key after all of its changes.

A key's row follows from the set of its changes and from nothing else: per column the value of the
newest change that carried the column since the newest delete. So the row does not depend on the
order of arrival, on how the changes were cut into batches, or on how often they were delivered.

`KeyState.fold` takes changes one by one. A change that is newer than all before it is applied in
its turn. A late change (older than the row) gives values only to columns whose own change is older
still, and a late delete takes away values that are older than the delete. For this the row keeps
the order keys of its columns where they differ (`Facts`).

A redelivery is recognised by its sequence and digest, and changes nothing. Of different changes at
one sequence (a tie) the one whose first delivery came later is the newer one: arrival is the end of
the order key. For this the row keeps the digests of all changes at the sequences it names.

Values are not looked at: a row of the input is a number (its source), and the outcome says which
source gives which columns.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from silver.fold.order_key import sequence_of
from silver.fold.rules import NOWHERE, Changes, FoldRules

DIGEST_BYTES = 8
_FEW = 8


class Facts(NamedTuple):
    """What a stored row of a current table says beside its values.

    Attributes:
        order: order key of the newest change.
        deleted: whether that is a delete; then the row is a tombstone.
        digest: digest of the newest change.
        upsert: order key of the newest upsert, where it is not `order`: of a tombstone whose row
            was seen.
        removed: order key of the newest delete before that upsert.
        columns: order key of each column that the newest upsert does not give; empty where no
            change has carried the column since the delete.
        changes: per sequence that the row names, the sequence and the digests (8 bytes each, in
            order) of the changes that came there, but for `digest`.
    """

    order: bytes
    deleted: bool
    digest: int
    upsert: bytes | None = None
    removed: bytes | None = None
    columns: Mapping[str, bytes] | None = None
    changes: tuple[bytes, ...] | None = None


class KeyOutcome(NamedTuple):
    """What became of the new changes of a key.

    `applied` is what the newest change did (inserted, updated, deleted, delete_unknown), or `late`
    where older changes gave the live row values, else None. `ties` is a note beside the sum.
    """

    applied: str | None
    superseded: int
    duplicate: int
    ties: int


class KeyState:
    """The row of one key while its changes are folded.

    Attributes:
        order: order key of the newest change; empty while there is none.
        newest: source of the newest change.
        source: source of the newest upsert, which gives every column but those in `parts`.
        parts: order key and source of each column that the newest upsert does not give.
    """

    __slots__ = (
        "_columns", "_cutoff", "_from_log", "_grouped", "_late", "_own", "_seen", "_sequence",
        "came", "deleted", "digest", "duplicates", "newest", "newest_is_new", "order", "parts",
        "received", "removed", "source", "stored", "ties", "upsert", "was_live",
    )  # fmt: skip

    def __init__(self, rules: FoldRules) -> None:
        self._columns, self._grouped = rules.column_set, rules.grouped
        self._cutoff = rules.newest_cutoff
        self._sequence: bytes | None = None
        self._seen: dict[bytes, dict[int, bool]] = {}
        self._own: dict[str, str] = {}
        self._late, self._from_log = False, rules.from_log
        self.order = self.upsert = self.removed = b""
        self.deleted = self.newest_is_new = self.was_live = self.came = False
        self.digest = self.received = self.duplicates = self.ties = 0
        self.newest = self.source = NOWHERE
        self.parts: dict[str, tuple[bytes, int]] = {}
        self.stored: Facts | None = None

    def take_stored(self, facts: Facts, source: int, absent: Sequence[str] = ()) -> None:
        """Begins with the stored row; of a table folded from the log keeps it for comparison.

        `absent` names columns that came to the table after the row was written. What the row knows
        from before a cut-off is gone.
        """
        columns = {c: b"" for c in absent} | dict(facts.columns or {})
        self.stored = facts._replace(columns=columns) if absent else facts
        if self._from_log or facts.order < self._cutoff:
            return
        self.order, self.deleted, self.digest = facts.order, facts.deleted, facts.digest
        self.newest, self.was_live = source, not facts.deleted
        self.upsert = (facts.upsert or b"") if facts.deleted else facts.order
        self.removed = facts.removed or b""
        self.source = source if self.upsert else NOWHERE
        self.parts = {c: (order, source if order else NOWHERE) for c, order in columns.items()}
        for entry in facts.changes or ():
            sequence = sequence_of(entry)
            self._seen[sequence] = dict.fromkeys(_digests(entry, len(sequence)), False)
        if self._cutoff:
            self._forget_before_cutoff()

    def _forget_before_cutoff(self) -> None:
        if self.upsert < self._cutoff:
            self.upsert, self.source, self.parts = b"", NOWHERE, {}
        if self.removed < self._cutoff:
            self.removed = b""
        for column, (order, _) in self.parts.items():
            if order < self._cutoff:
                self.parts[column] = b"", NOWHERE

    def facts(self) -> Facts:
        """What the stored row of the key says beside its values."""
        if not (self.deleted or self.removed or self.parts or self._seen):
            return Facts(self.order, False, self.digest)
        columns = {c: order for c, (order, _) in self.parts.items()}
        upsert = self.upsert if self.deleted else b""
        changes = tuple(self._changes())
        return Facts(
            self.order, self.deleted, self.digest,
            upsert or None, self.removed or None, columns or None, changes or None,
        )  # fmt: skip

    def outcome(self) -> KeyOutcome:
        """What became of the changes of this batch; they are counted where they were folded."""
        applied = self._applied()
        lost = self.received - self.duplicates - (applied is not None)
        return KeyOutcome(applied, lost, self.duplicates, self.ties)

    def _applied(self) -> str | None:
        if self.newest_is_new:
            if self.deleted:
                return "deleted" if self.was_live or self.came else "delete_unknown"
            return "updated" if self.was_live else "inserted"
        if self.received == self.duplicates or self.deleted or not self.order:
            return None
        late = not self.keeps_values() if self._from_log else self._late
        return "late" if late else None

    def differs(self, facts: Facts) -> bool:
        """Whether the row with these facts differs from the stored one, so that it is written."""
        return bool(self.order) and facts != self.stored

    def keeps_values(self) -> bool:
        """Whether all values are those of the stored row."""
        stored = self.stored
        if stored is None:
            return False
        before = stored.upsert if stored.deleted else stored.order
        columns = {c: order for c, (order, _) in self.parts.items()}
        return self.upsert == (before or b"") and columns == (stored.columns or {})

    def sources(self) -> set[int]:
        """The sources that the row may still need."""
        return {self.newest, self.source, *(source for _, source in self.parts.values())}

    def move_sources(self, moved: Mapping[int, int]) -> None:
        """Renumbers the sources."""
        self.newest, self.source = moved[self.newest], moved[self.source]
        self.parts = {c: (order, moved[source]) for c, (order, source) in self.parts.items()}

    def fold(self, changes: Changes, begin: int, end: int) -> None:
        """Folds the changes `begin` to `end` (exclusive), which are in order, into the row.

        A whole upsert that is newer than a live row replaces the row: nearly every change does, and
        takes the short way here.
        """
        orders, upserts, absent = changes.order, changes.upsert, changes.absent
        cutoff = self._cutoff
        for at in range(begin, end):
            order = orders[at]
            if (
                not upserts[at]
                or order < self.order
                or order < cutoff
                or self.deleted
                or self.removed
                or self._grouped
                or (absent is not None and absent[at])
                or (self.order and order.startswith(self.sequence))
            ):
                self._apply(changes, at)
            else:
                self._replace(order, changes.digest[at], changes.new[at], at)

    def _replace(self, order: bytes, digest: int, new: bool, source: int) -> None:
        if new:
            self.received += 1
            self.newest_is_new = self.came = True
        else:
            self.newest_is_new, self.was_live, self.came = False, True, False
        self.order = self.upsert = order
        self.newest = self.source = source
        self.digest, self._sequence = digest, None
        if self.parts or self._seen:
            self.parts, self._seen = {}, {}

    def _apply(self, changes: Changes, at: int) -> None:
        """Takes one change, whatever came before it."""
        order, digest, new = changes.order[at], changes.digest[at], changes.new[at]
        self.received += new
        if order < self._cutoff or self._came_before(order, digest, new):
            return
        absent = changes.absent[at] if changes.absent is not None else None
        if order >= self.order:
            if changes.upsert[at]:
                own = changes.own_sequences[at] if changes.own_sequences is not None else None
                self._newer_upsert(order, absent or (), own or {}, at)
            self._take_as_newest(order, changes.upsert[at], digest, new, at)
        elif changes.upsert[at]:
            self._late_upsert(order, absent or (), at)
        else:
            self._late_delete(order)
        if len(self._seen) > _FEW + 2 * len(self.parts):
            self._forget_seen(order)

    def _came_before(self, order: bytes, digest: int, new: bool) -> bool:
        """Whether the change is a redelivery; counts it, or the tie, and remembers the change.

        A dead letter that was replayed may stand before its earlier delivery in order. Then the
        earlier delivery counts, at its own place, and the new one is the duplicate.
        """
        sequence = sequence_of(order)
        here = self._seen.setdefault(sequence, {})
        if self.order and sequence == self.sequence:
            here.setdefault(self.digest, self.newest_is_new)
        if digest in here:
            replayed_first = here[digest] and not new
            self.duplicates += new or replayed_first
            if not replayed_first:
                return True
        elif here:
            self.ties += new or all(here.values())
        here[digest] = new
        return False

    @property
    def sequence(self) -> bytes:
        """The sequence of the newest change."""
        if self._sequence is None:
            self._sequence = sequence_of(self.order) if self.order else b""
        return self._sequence

    def _take_as_newest(
        self, order: bytes, upsert: bool, digest: int, new: bool, source: int
    ) -> None:
        if self.order:
            self._seen.setdefault(self.sequence, {}).setdefault(self.digest, self.newest_is_new)
        if not new:
            self.was_live = upsert
        self.came = new and (self.came or upsert)
        self.order, self._sequence, self.digest = order, None, digest
        self.deleted, self.newest, self.newest_is_new = not upsert, source, new

    def _newer_upsert(
        self, order: bytes, absent: Sequence[str], own: Mapping[str, str], source: int
    ) -> None:
        """A row that was deleted starts from an empty one."""
        if self.deleted:
            self.removed, self.upsert, self.source = self.order, b"", NOWHERE
            self.parts, self._own = {}, {}
        lost = self._outranked(absent, own) if self._grouped else ()
        self._give(order, [*absent, *lost], source)

    def _outranked(self, absent: Sequence[str], own: Mapping[str, str]) -> list[str]:
        """The carried columns of which a change with a higher sequence of their own is known."""
        lost = []
        for column in self._grouped:
            if column in absent:
                continue
            mine = own.get(column) or ""
            if mine < self._own.get(column, ""):
                lost.append(column)
            else:
                self._own[column] = mine
        return lost

    def _give(self, order: bytes, absent: Sequence[str], source: int) -> None:
        """Makes an upsert the newest one; the columns it lacks stay as they are."""
        before = self.upsert, self.source
        self.parts = {c: self.parts.get(c, before) for c in absent if c in self._columns}
        self.upsert, self.source = order, source

    def _late_upsert(self, order: bytes, absent: Sequence[str], source: int) -> None:
        if order < self.removed:
            return
        if order > self.upsert:
            self._give(order, absent, source)
            return
        for column, (known, _) in self.parts.items():
            if known < order and column not in absent:
                self.parts[column] = order, source
                self._late = True

    def _late_delete(self, order: bytes) -> None:
        """A late delete takes nothing from a deleted row: its values show what was known last."""
        if self.deleted or order < self.removed:
            return
        self.removed = order
        for column, (known, _) in self.parts.items():
            if known < order:
                self.parts[column] = b"", NOWHERE
                self._late = self._late or bool(known)

    def _named(self) -> set[bytes]:
        """The sequences that the row names."""
        orders = (self.order, self.upsert, self.removed, *(o for o, _ in self.parts.values()))
        return {sequence_of(order) for order in orders if order}

    def _forget_seen(self, order: bytes) -> None:
        kept = self._named() | {sequence_of(order)}
        self._seen = {s: digests for s, digests in self._seen.items() if s in kept}

    def _changes(self) -> list[bytes]:
        found = []
        for sequence in sorted(self._named() & self._seen.keys()):
            digests = {*self._seen[sequence]}
            if sequence == self.sequence:
                digests.discard(self.digest)
            if digests:
                packed = (d.to_bytes(DIGEST_BYTES, "big", signed=True) for d in sorted(digests))
                found.append(sequence + b"".join(packed))
        return found


def _digests(entry: bytes, begin: int) -> list[int]:
    ends = range(begin + DIGEST_BYTES, len(entry) + 1, DIGEST_BYTES)
    return [int.from_bytes(entry[at - DIGEST_BYTES : at], "big", signed=True) for at in ends]
