"""Current rows over Arrow: the states of the keys in a window, and the rows that come out."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.arrow_values import Bools, Folder, Ints, index_of, read_changes
from silver.fold.current import CurrentFold, RowFacts
from silver.fold.plain.facts import read_stored_facts, to_facts_column
from silver.fold.plain.keys import PlainKeys, find_plain_keys
from silver.fold.rules import KEPT, Changes, FoldRules


class CurrentFolder(Folder[CurrentFold]):
    """Folds the keys of windows, one after the other, into rows of a current table."""

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        super().__init__(rules, keys)
        self._plain = PlainKeys.none()
        self._differing: list[tuple[CurrentFold, RowFacts]] = []

    def find_plain(self, begins: Ints) -> Bools:
        """Which of the keys that end in the window are plain: the loop leaves them out."""
        plain, self._plain = find_plain_keys(self.window, begins, self.rules)
        self.counts.update(self._plain.outcomes)
        return plain

    def read_rows(self, rows: Ints) -> Changes:
        """The rows that the loop folds, as the law takes them."""
        self._stored = read_stored_facts(self.window, rows)
        return read_changes(self.window, rows, self.rules.grouped)

    def begin_key(self) -> CurrentFold:
        """Begins a key."""
        return CurrentFold(self.rules)

    def fold_rows(self, key: CurrentFold, begin: int, end: int) -> None:
        """Folds rows that were read; a stored row is the first of its key."""
        changes, stored = self.changes, self._stored.get(begin)
        if stored is not None:
            absent = changes.absent[begin] if changes.absent is not None else None
            key.begin(stored, changes.source[begin], absent or ())
            begin += 1
        key.fold(changes, begin, end)

    def close_key(self, key: CurrentFold) -> None:
        """Ends a key; its row is written where it differs from the stored one."""
        key.finish()
        key.count()
        facts = key.facts()
        if key.differs(facts):
            self._differing.append((key, facts))

    def take_output(self) -> dict[str, pa.Array]:
        """The rows of the keys that were closed, as far as they are new or differ, as columns."""
        plain, self._plain = self._plain, PlainKeys.none()
        differing, self._differing = self._differing, []
        keys = [key for key, _ in differing]
        newest = np.asarray([key.newest[1] for key in keys], np.int64)
        rows = _InOrder(plain, np.argsort(np.concatenate([plain.newest, newest]), kind="stable"))
        index = rows.sources(plain.newest, newest)
        deleted = rows.flags(plain.deleted, (key.deleted for key in keys))
        keeps_values = rows.flags(plain.keeps_values, (key.keeps_values() for key in keys))
        columns = {name: self.window.take(name, index) for name in (*self.keys, "_order")}
        columns |= self.take_values(
            [key.content() for key in keys], lambda folded: rows.sources(plain.upsert, folded)
        )
        times = self.window.take("_source_time", index)
        facts = [plain.build_facts(self.window), to_facts_column([facts for _, facts in differing])]
        self.counts[KEPT] += int((keeps_values & ~deleted).sum())
        return columns | {
            "_deleted": pa.array(deleted),
            "_digest": self.window.take("_digest", index),
            "_source_time": pc.if_else(pa.array(deleted), times, pa.scalar(None, times.type)),
            "_facts": pa.concat_arrays(facts).take(pa.array(rows.order)),
            "_keeps_values": pa.array(keeps_values),
        }


class _InOrder(NamedTuple):
    """Plain keys and, after them, keys that were folded; `order` is the order of the output."""

    plain: PlainKeys
    order: Ints

    def sources(self, of_plain: Ints, folded: Sequence[int] | Ints) -> pa.Array:
        return index_of(np.concatenate([of_plain, np.asarray(folded, np.int64)])[self.order])

    def flags(self, of_plain: Bools, folded: Iterable[bool]) -> Bools:
        flags: Bools = np.concatenate([of_plain, np.fromiter(folded, np.bool_)])[self.order]
        return flags
