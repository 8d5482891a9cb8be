"""The convergence law for current tables: the row of a key after all of its changes."""

from dataclasses import dataclass
from typing import NamedTuple


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
        grouped: those of `columns` that have an order of their own, found in `_group_sequences`.
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
