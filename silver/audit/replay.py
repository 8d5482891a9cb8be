"""What the fold did with every change of one key: its runs, one after the other, in memory."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from silver.contract import UPSERT
from silver.fold.current import CurrentFold, RowFacts
from silver.fold.order_key import sequence_of
from silver.fold.rules import NO_SOURCE, Changes, Cutoff, FoldRules, VersionFacts
from silver.fold.versions import HistoryFold


class KeyRecord(NamedTuple):
    """A record of bronze as the change log has it.

    `order` is its order key, empty when it has none; `moved` says that the record is
    another key's, which this key became; `values` are the carried ones as JSON.
    """

    position: str
    arrival: str
    batch: int
    operation: str | None
    sequence: str | None = None
    order: bytes = b""
    digest: int = 0
    source_time: str | None = None
    carried: frozenset[str] = frozenset()
    reason: str | None = None
    message: str | None = None
    replayed: str | None = None
    old_key: str | None = None
    moved: bool = False
    values: str | None = None

    @property
    def is_upsert(self) -> bool:
        """Whether it is an upsert."""
        return self.operation == UPSERT


class Done(NamedTuple):
    """The outcome of a change, one of `OUTCOMES`.

    `columns` are those that an older change gives to a row which newer changes made.
    """

    outcome: str
    columns: tuple[str, ...] = ()


def replay(
    changes: Sequence[KeyRecord], cuts: Sequence[KeyRecord], history: bool
) -> Iterator[Done]:
    """Folds the changes of a key batch by batch, as the runs did, and yields what became of each.

    Args:
        changes: the key's changes, in the order in which their outcomes are wanted.
        cuts: truncates and full snapshots that are in force since their batches.
        history: whether the table keeps every version.
    """
    columns = tuple(sorted(frozenset[str]().union(*(c.carried for c in changes))))
    table: _CurrentRow | _Versions = _Versions() if history else _CurrentRow()
    done: dict[int, Done] = {}
    for number in sorted({c.batch for c in changes}):
        batch = [at for at, c in enumerate(changes) if c.batch == number]
        orders = sorted(cut.order for cut in cuts if cut.batch <= number)
        rules = FoldRules(columns, cutoffs=tuple(map(Cutoff, orders)))
        done |= table.fold(rules, changes, sorted(batch, key=lambda at: changes[at].order))
    return (done[at] for at in range(len(changes)))


class _CurrentRow:
    """The row of a current table."""

    def __init__(self) -> None:
        self._facts: RowFacts | None = None

    def fold(
        self, rules: FoldRules, changes: Sequence[KeyRecord], batch: list[int]
    ) -> dict[int, Done]:
        key = CurrentFold(rules, traces=True)
        if self._facts is not None:
            key.begin(self._facts, NO_SOURCE)
        key.fold(_build_changes(rules, changes, batch, set(batch)), 0, len(batch))
        key.finish()
        key.count()
        facts, content, notes = key.facts(), key.content(), key.notes or {}
        self._facts = facts if facts.order else None
        live = {} if key.deleted else {c: content.source_of(c) for c in content.parts}
        return {
            at: Done(notes.get(at, "superseded"), tuple(sorted(c for c in live if live[c] == at)))
            for at in batch
        }


class _Versions:
    """The rows of a history: the changes in order, and what each row says."""

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[int, VersionFacts]] = {}

    def fold(
        self, rules: FoldRules, changes: Sequence[KeyRecord], batch: list[int]
    ) -> dict[int, Done]:
        orders = sorted(self._rows)
        first = sequence_of(changes[batch[0]].order)
        begin = 0 if rules.cutoffs else max(bisect_left(orders, first) - 1, 0)
        stored = {self._rows[order][0]: self._rows[order][1] for order in orders[begin:]}
        rows = sorted([*stored, *batch], key=lambda at: changes[at].order)
        facts = {place: stored[at] for place, at in enumerate(rows) if at in stored}
        lists = _build_changes(rules, changes, rows, set(batch))
        key = HistoryFold(rules, lambda _one, _other: False, traces=True)
        key.fold(lists._replace(time=[None] * len(rows), stored=facts), 0, len(rows))
        key.finish()
        for row in key.take_rows():
            self._rows[changes[row.source].order] = row.source, row.facts
        notes = key.notes or {}
        return {at: Done(notes[at]) for at in batch}


def _build_changes(
    rules: FoldRules, changes: Sequence[KeyRecord], rows: Sequence[int], new: set[int]
) -> Changes:
    chosen = [changes[at] for at in rows]
    return Changes(
        rows,
        [c.order for c in chosen],
        [c.is_upsert for c in chosen],
        [c.digest for c in chosen],
        [at in new for at in rows],
        [sorted(rules.column_set - c.carried) if c.is_upsert else None for c in chosen],
    )
