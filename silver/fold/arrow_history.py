"""Histories over Arrow: the keys in a window, and the rows of their histories that change."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from silver.fold.arrow_values import (
    Bools,
    ContentComparison,
    Folder,
    Ints,
    Window,
    find_stored_rows,
    index_of,
    read_changes,
    to_micros,
)
from silver.fold.open_version import NO_COLUMNS, HistoryRow
from silver.fold.plain.versions import PlainVersions, find_plain_versions
from silver.fold.rules import NO_SOURCE, Changes, FoldRules, VersionFacts
from silver.fold.versions import HistoryFold

CHANGE_COLUMNS = (
    ("_order", "binary"),
    ("_operation", "string"),
    ("_absent", "array<string>"),
    ("_group_sequences", "map<string,string>"),
    ("_digest", "bigint"),
    ("_source_time", "timestamp"),
)
HISTORY_FACTS = (
    ("_next_order", "binary"),
    ("_shown", "boolean"),
    ("_is_current", "boolean"),
    ("_time", "timestamp"),
    ("_valid_from", "timestamp"),
    ("_valid_to", "timestamp"),
    ("_from_order", "binary"),
    ("_to_order", "binary"),
    ("_life", "binary"),
    ("_kept", "boolean"),
)
"""The columns of `VersionFacts`, in its order."""

_OPTIONAL = {
    "_absent": pa.list_(pa.string()),
    "_group_sequences": pa.map_(pa.string(), pa.string()),
}
_NO_ROWS = PlainVersions(np.empty(0, np.int64), np.empty(0, np.bool_), {}, {})
_FACT_TYPES = {"binary": pa.binary(), "boolean": pa.bool_(), "timestamp": pa.int64()}


class HistoryFolder(Folder[HistoryFold]):
    """Folds the keys of windows, one after the other, into rows of a history."""

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        super().__init__(rules, keys)
        self._comparison = ContentComparison(rules.tracked)
        self._rows: list[HistoryRow] = []
        self._plain: PlainVersions | None = None

    def set_window(self, window: Window) -> None:
        """Goes on to the next window."""
        self._comparison.set_window(window)
        super().set_window(window)

    def find_plain(self, begins: Ints) -> Bools:
        """Which of the keys that end in the window are plain: the loop leaves them out."""
        same = self._comparison.equals_previous()
        plain, self._plain = find_plain_versions(self.window, begins, self.rules, same)
        if self._plain is not None:
            self.counts.update(self._plain.outcomes)
        return plain

    def read_rows(self, rows: Ints) -> Changes:
        """The rows that the loop folds, as the law takes them."""
        changes = read_changes(self.window, rows, self.rules.grouped)
        times = to_micros(self.window.take("_source_time", pa.array(rows))).to_pylist()
        return changes._replace(time=times, stored=_stored_facts(self.window, rows))

    def begin_key(self) -> HistoryFold:
        """Begins a key."""
        return HistoryFold(self.rules, self._comparison.agree)

    def fold_rows(self, key: HistoryFold, begin: int, end: int) -> None:
        """Folds rows that were read."""
        key.fold(self.changes, begin, end)

    def close_key(self, key: HistoryFold) -> None:
        """Ends a key."""
        key.finish()
        self._rows += key.take_rows()

    def take_output(self) -> dict[str, pa.Array]:
        """The rows that are new or differ, as columns."""
        if self.key is not None:
            self._rows += self.key.take_rows()
        rows, self._rows = self._rows, []
        plain, self._plain = self._plain or _NO_ROWS, None
        sources = np.concatenate([plain.sources, np.asarray([r.source for r in rows], np.int64)])
        order = np.argsort(sources, kind="stable")
        index = index_of(sources[order])
        of_plain = np.where(plain.upsert, plain.sources, NO_SOURCE)
        columns = {key: self.window.take(key, index) for key in self.keys}
        columns |= self.take_values(
            [row.content for row in rows],
            lambda folded: index_of(
                np.concatenate([of_plain, np.asarray(folded, np.int64)])[order]
            ),
        )
        for name, _ in CHANGE_COLUMNS:
            if name in self.window.names:
                columns[name] = self.window.take(name, index)
            else:
                columns[name] = pa.nulls(len(order), _OPTIONAL[name])
        columns["_absent"] = _without_taken(columns["_absent"], rows, order - len(plain.sources))
        return columns | self._facts_columns(plain, rows, order)

    def _facts_columns(
        self, plain: PlainVersions, rows: Sequence[HistoryRow], order: Ints
    ) -> dict[str, pa.Array]:
        stored_type = self.window.column("_source_time").type
        micros = pa.timestamp("us", stored_type.tz)
        columns = {}
        lists = zip(*(r.facts for r in rows), strict=True) if rows else [()] * len(HISTORY_FACTS)
        for (name, type), values in zip(HISTORY_FACTS, lists, strict=True):
            parts = [pa.array(values, _FACT_TYPES[type])]
            if name in plain.facts:
                parts.insert(0, plain.facts[name])
            column = pa.concat_arrays(parts).take(pa.array(order))
            columns[name] = column.cast(micros).cast(stored_type) if type == "timestamp" else column
        return columns


def _without_taken(absent: pa.Array, rows: Sequence[HistoryRow], places: Ints) -> pa.Array:
    """The absent columns of changes, without those whose values came from another key.

    `places` are the changes' places among the rows, below 0 for those that took no values.
    """
    if not any(row.taken for row in rows):
        return absent
    taken = [rows[at].taken if at >= 0 else NO_COLUMNS for at in places]
    lists = zip(absent.to_pylist(), taken, strict=True)
    left = [[c for c in names or () if c not in moved] or None for names, moved in lists]
    return pa.array(left, absent.type)


def _stored_facts(window: Window, rows: Ints) -> dict[int, VersionFacts]:
    """The facts of the stored ones of some rows, by their index among these."""
    stored = find_stored_rows(window, rows)
    if not len(stored):
        return {}
    index, lists = pa.array(rows[stored]), []
    for name, type in HISTORY_FACTS:
        column = window.take(name, index)
        lists.append((to_micros(column) if type == "timestamp" else column).to_pylist())
    return {at: VersionFacts(*facts) for at, *facts in zip(stored.tolist(), *lists, strict=True)}
