"""Histories over Arrow: the keys in a window, and the rows of their histories that change."""

from collections.abc import Sequence

import pyarrow as pa

from silver.fold.arrow_values import (
    ContentComparison,
    Folder,
    Ints,
    Window,
    changes_of,
    counts_of_keys,
    index_of,
    stored_rows,
    to_micros,
)
from silver.fold.law import EMPTY
from silver.fold.rules import Changes, FoldRules, VersionFacts
from silver.fold.versions import HistoryFold, HistoryRow

_CHANGE = ("_order", "_operation", "_absent", "_group_sequences", "_digest", "_source_time")
_MISSING = {
    "_absent": pa.list_(pa.string()),
    "_group_sequences": pa.map_(pa.string(), pa.string()),
}
_TIMES = ("_time", "_valid_from", "_valid_to")
_TYPES = {
    "_next_order": pa.binary(),
    "_shown": pa.bool_(),
    "_is_current": pa.bool_(),
    "_time": pa.int64(),
    "_valid_from": pa.int64(),
    "_valid_to": pa.int64(),
    "_from_order": pa.binary(),
    "_to_order": pa.binary(),
    "_life": pa.binary(),
    "_kept": pa.bool_(),
}
_NOTHING = VersionFacts(None, False, False, None, None, None, None, None, b"", None)


class HistoryFolder(Folder[HistoryFold]):
    """Folds the keys of windows, one after the other, into rows of a history."""

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        super().__init__(rules, keys)
        self._comparison = ContentComparison(rules.tracked)
        self._rows: list[HistoryRow] = []
        self._counted: list[tuple[int, HistoryFold]] = []
        self._carries: list[int] = []

    def look_at(self, window: Window) -> Window:
        """Goes on to another window."""
        self._comparison.look_at(window)
        return super().look_at(window)

    def read(self, rows: Ints) -> Changes:
        """The rows that go through the loop, as it takes them."""
        changes = changes_of(self.window, rows, self.rules.grouped)
        times = to_micros(self.window.take("_source_time", pa.array(rows)))
        return changes._replace(time=times, stored=_stored_facts(self.window, rows))

    def new_key(self) -> HistoryFold:
        """Begins a key."""
        return HistoryFold(self.rules, self._comparison.agree)

    def fold_rows(self, key: HistoryFold, begin: int, end: int) -> None:
        """Folds rows that were read."""
        key.fold(self.changes, begin, end)

    def close(self, key: HistoryFold, last: int) -> None:
        """Ends a key; its last row carries its counts."""
        newest = key.finish()
        self._rows += key.rows
        if key.outcomes:
            if not key.rows:
                self._rows.append(HistoryRow(newest, EMPTY, _NOTHING))
                self._carries.append(len(self._rows) - 1)
            self._counted.append((len(self._rows) - 1, key))

    def take_rows(self) -> dict[str, pa.Array]:
        """The rows that are new or differ, and rows that carry counts only, as columns."""
        if self.key is not None:
            self._rows += self.key.rows
            self.key.rows = []
        rows, self._rows = self._rows, []
        index = index_of([row.source for row in rows])
        columns = {key: self.window.take(key, index) for key in self.keys}
        columns |= self.values([row.content for row in rows], index_of)
        for name in _CHANGE:
            given = name in self.window.names
            columns[name] = (
                self.window.take(name, index) if given else pa.nulls(len(rows), _MISSING[name])
            )
        columns["_absent"] = _without_taken(columns["_absent"], rows)
        columns |= self._facts_columns(rows)
        write = [True] * len(rows)
        for at in self._carries:
            write[at] = False
        columns["_write"] = pa.array(write, pa.bool_())
        counts = counts_of_keys(len(rows), self._counted)
        self._counted, self._carries = [], []
        return columns | {f"_n_{name}": pa.array(n, pa.int32()) for name, n in counts.items()}

    def _facts_columns(self, rows: Sequence[HistoryRow]) -> dict[str, pa.Array]:
        time = self.window.column("_source_time").type
        moment = pa.timestamp("us", time.tz)
        columns = {}
        lists = zip(*(row.facts for row in rows), strict=True) if rows else [()] * len(_TYPES)
        for (name, type), values in zip(_TYPES.items(), lists, strict=True):
            column = pa.array(values, type)
            columns[name] = column.cast(moment).cast(time) if name in _TIMES else column
        return columns


def _without_taken(absent: pa.Array, rows: Sequence[HistoryRow]) -> pa.Array:
    """The columns that changes lack, but for values that came with a row from another key."""
    if not any(row.taken for row in rows):
        return absent
    lists = zip(absent.to_pylist(), rows, strict=True)
    left = [[c for c in names or () if c not in row.taken] or None for names, row in lists]
    return pa.array(left, absent.type)


def _stored_facts(window: Window, rows: Ints) -> dict[int, VersionFacts]:
    """What the stored ones of some rows say, by their place among these."""
    places = stored_rows(window, rows)
    if not len(places):
        return {}
    columns = [window.take(name, pa.array(rows[places])) for name in _TYPES]
    lists = [
        to_micros(column) if name in _TIMES else column.to_pylist()
        for name, column in zip(_TYPES, columns, strict=True)
    ]
    return {at: VersionFacts(*said) for at, *said in zip(places.tolist(), *lists, strict=True)}
