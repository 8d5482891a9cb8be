"""What the law is told of a table, and the changes that it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

NOWHERE = -1
"""The source of a column that no change carried: null."""

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


class Cutoff(NamedTuple):
    """A truncate point or a snapshot cut-off: every older change counts no more.

    `order` is its order key; `time` its commit time in µs since 1970, where that is known.
    """

    order: bytes
    time: int | None = None


@dataclass(frozen=True)
class FoldRules:
    """What decides how the changes of a table are folded.

    Attributes:
        columns: the business columns but the keys.
        grouped: those of `columns` that have an order of their own, found in `_group_sequences`;
            such a table is folded `from_log`.
        tracked: those of `columns` whose change opens a version; histories only.
        cutoffs: the truncate points and snapshot cut-offs in force, oldest first.
        from_log: the input holds all changes of each key, earlier ones too; stored rows are there
            for comparison only.
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


class Changes(NamedTuple):
    """Changes of one key or of many, as parallel lists; a change's index is its source.

    `absent` names the columns that a change does not carry (the list is None where every change
    carries all columns); `own_sequences` has the sequences of columns with an order of their own.
    `new` tells the changes of this batch from earlier ones.
    """

    order: Sequence[bytes]
    upsert: Sequence[bool]
    digest: Sequence[int]
    new: Sequence[bool]
    absent: Sequence[Sequence[str] | None] | None = None
    own_sequences: Sequence[Mapping[str, str] | None] | None = None
