"""The rules by which a table's changes are folded, and the changes themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

NO_SOURCE = -1
"""In place of a source, the number of an input row: the value is null, as no row gives it."""

OUTCOMES: Mapping[str, str] = {
    "inserted": "The change made a row.",
    "updated": "The change gave a row new values.",
    "deleted": "The change removed a row.",
    "delete_unknown": "The change deletes a key of which neither the table nor the run has a row;"
    " the delete is kept.",
    "superseded": "A newer change of the key is known, and this one changes nothing.",
    "duplicate": "The stored row of the key shows that the change was delivered before.",
    "late": "A newer change of the key is applied already; this one has its place in the history,"
    " or gives the row values that no newer change carries.",
}
"""What may become of a change, and what each outcome means.

A history applies every change in its turn; of a current table only the newest change of a key in a
batch is applied, and the others are superseded.
"""


TIES, WRITTEN, KEPT = NOTES = ("ties", "rows", "kept")
"""What a fold counts beside outcomes: new changes at a sequence that has another change, rows that
are new or differ, and those among them that are live and keep their stored values."""


class Cutoff(NamedTuple):
    """A truncate point or a snapshot cut-off: older changes no longer count.

    `order` is its order key; `time` its commit time in µs since 1970, where that is known. `until`
    is the order key at which the rows of a snapshot end: a row that it shows unchanged keeps its
    version.
    """

    order: bytes
    time: int | None = None
    until: bytes = b""

    def spares(self, order: bytes, time: int | None) -> bool:
        """Whether a row may go on with an older version: as part of the snapshot, or put back."""
        return order < self.until or (time is not None and time == self.time)


@dataclass(frozen=True)
class FoldRules:
    """What decides how the changes of a table are folded.

    Attributes:
        columns: the business columns but the keys.
        grouped: those of `columns` that a sequence group orders; a table with any is folded
            `from_log`.
        tracked: those of `columns` whose change opens a version; histories only.
        cutoffs: the truncate points and snapshot cut-offs in force, oldest first.
        from_log: the input holds all changes of each key, earlier ones too; stored rows only show
            which rows to write.
        keeps_deleted: a deleted row keeps its values in the history (`on_delete: flag`).
    """

    columns: tuple[str, ...]
    grouped: tuple[str, ...] = ()
    tracked: tuple[str, ...] = ()
    cutoffs: tuple[Cutoff, ...] = ()
    from_log: bool = False
    keeps_deleted: bool = False

    @cached_property
    def column_set(self) -> frozenset[str]:
        """The columns, to look one up."""
        return frozenset(self.columns)

    @cached_property
    def cutoff_orders(self) -> tuple[bytes, ...]:
        """The order keys of the cut-offs, oldest first."""
        return tuple(cutoff.order for cutoff in self.cutoffs)

    @property
    def newest_cutoff(self) -> bytes:
        """The order key below which no change counts; empty without a cut-off."""
        return self.cutoffs[-1].order if self.cutoffs else b""


class VersionFacts(NamedTuple):
    """The columns of a history row beside its change and its values; times in µs since 1970.

    Attributes:
        next_order: order key of the key's next change; None on the newest.
        shown: whether the row stands for a version: it is the version's newest one.
        is_current: whether that version is open.
        time: newest commit time of the changes up to here, so that it never runs back.
        valid_from: when the version began; None on deletes and lost ties.
        valid_to: when the version ended; only on the shown row of one that did.
        from_order: order key of the version's first change.
        to_order: order key of the change or cut-off that ended the version.
        life: order key of the newest delete or cut-off before the row; empty without one.
        kept: whether a delete has the row's last values; None without `keeps_deleted`.
    """

    next_order: bytes | None
    shown: bool
    is_current: bool
    time: int | None
    valid_from: int | None
    valid_to: int | None
    from_order: bytes | None
    to_order: bytes | None
    life: bytes
    kept: bool | None


class Changes(NamedTuple):
    """Changes of one key or of many, as parallel lists; keys are hashes.

    Attributes:
        source: the number of the input row that has the change's values.
        new: whether the change belongs to this batch.
        absent: columns that a change does not carry; None where every change carries all.
        group_sequences: by grouped column, the sequence of its group in a change.
        moved_from: the key whose row a change moved to this key.
        belongs_to: the key of a change that is here as its row moved on to this key; None for the
            key's own changes.
        time: commit times in µs since 1970; histories only.
        stored: the facts of each stored row of a history, by index.
    """

    source: Sequence[int]
    order: Sequence[bytes]
    upsert: Sequence[bool]
    digest: Sequence[int]
    new: Sequence[bool]
    absent: Sequence[Sequence[str] | None] | None = None
    group_sequences: Sequence[Mapping[str, str] | None] | None = None
    moved_from: Sequence[int | None] | None = None
    belongs_to: Sequence[int | None] | None = None
    time: Sequence[int | None] = ()
    stored: Mapping[int, VersionFacts] = MappingProxyType({})
