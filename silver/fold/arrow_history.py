"""Histories over Arrow: the keys in a window, and the rows of their histories that change."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

from silver.fold.arrow_values import (
    ContentComparison,
    Window,
    changes_of,
    micros,
    stored_rows,
)
from silver.fold.rules import OUTCOMES, FoldRules
from silver.fold.versions import EMPTY, HistoryRow, KeyHistory, VersionFacts

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


class HistoryFolder:
    """Folds the keys of windows, one after the other, into rows of a history."""

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        self._rules, self._keys = rules, keys
        self._comparison = ContentComparison(rules.tracked)
        self._key: KeyHistory | None = None
        self._rows: list[HistoryRow] = []
        self._counted: dict[int, tuple[Mapping[str, int], int]] = {}
        self._carries: list[int] = []

    def look_at(self, window: Window) -> None:
        """Goes on to another window."""
        self._window = window
        self._changes = changes_of(window, self._rules.grouped)
        self._times = micros(window.column("_source_time"))
        self._stored = _stored_facts(window)
        self._comparison.look_at(window)

    def keys_to_fold(self, begins: Sequence[int]) -> list[tuple[int, int]]:
        """The first row of each key, and the row after its last one."""
        return list(pairwise(begins))

    def open_key(self) -> None:
        """Begins a key."""
        self._key = KeyHistory(self._rules, self._comparison.agree)

    def fold(self, begin: int, end: int) -> None:
        """Folds rows of the open key."""
        if self._key is None:
            raise ValueError(f"rows {begin} to {end} belong to no key: open_key comes first")
        self._key.fold(self._changes, self._times, self._stored, begin, end)

    def close_key(self) -> None:
        """Ends the open key, if there is one; its last row carries its counts."""
        key, self._key = self._key, None
        if key is None:
            return
        newest = key.finish()
        self._rows += key.rows
        if key.outcomes:
            if not key.rows:
                self._rows.append(HistoryRow(newest, EMPTY, _NOTHING))
                self._carries.append(len(self._rows) - 1)
            self._counted[len(self._rows) - 1] = key.outcomes, key.ties

    def sources(self) -> set[int]:
        """The rows that the open key still needs."""
        return self._key.sources() if self._key is not None else set()

    def move_sources(self, moved: Mapping[int, int]) -> None:
        """Renumbers the rows that the open key needs."""
        if self._key is not None:
            self._key.move_sources(moved)

    def take_rows(self) -> dict[str, pa.Array]:
        """The rows that are new or differ, and rows that carry counts only, as columns."""
        if self._key is not None:
            self._rows += self._key.rows
            self._key.rows = []
        rows, self._rows = self._rows, []
        changes = [row.source for row in rows]
        columns = {key: self._window.take(key, changes) for key in self._keys}
        columns |= self._values(rows)
        for name in _CHANGE:
            given = name in self._window.names
            columns[name] = (
                self._window.take(name, changes) if given else pa.nulls(len(rows), _MISSING[name])
            )
        columns |= self._facts(rows)
        write = [True] * len(rows)
        for at in self._carries:
            write[at] = False
        columns["_write"] = pa.array(write, pa.bool_())
        return columns | self._counts(len(rows))

    def _values(self, rows: Sequence[HistoryRow]) -> dict[str, pa.Array]:
        whole = [row.content.source for row in rows]
        own: dict[str, list[int]] = {}
        for at, row in enumerate(rows):
            for column, source in (row.content.parts or {}).items():
                if column not in own:
                    own[column] = list(whole)
                own[column][at] = source
        return {c: self._window.take(c, own.get(c, whole)) for c in self._rules.columns}

    def _facts(self, rows: Sequence[HistoryRow]) -> dict[str, pa.Array]:
        time = self._window.column("_source_time").type
        moment = pa.timestamp("us", time.tz)
        columns = {}
        lists = zip(*(row.facts for row in rows), strict=True) if rows else [()] * len(_TYPES)
        for (name, type), values in zip(_TYPES.items(), lists, strict=True):
            found = pa.array(values, type)
            columns[name] = found.cast(moment).cast(time) if name in _TIMES else found
        return columns

    def _counts(self, size: int) -> dict[str, pa.Array]:
        counts = {name: [0] * size for name in (*OUTCOMES, "ties")}
        for at, (outcomes, ties) in self._counted.items():
            counts["ties"][at] = ties
            for name, n in outcomes.items():
                counts[name][at] = n
        self._counted, self._carries = {}, []
        return {f"_n_{name}": pa.array(found, pa.int32()) for name, found in counts.items()}


def _stored_facts(window: Window) -> dict[int, VersionFacts]:
    rows = stored_rows(window)
    if not rows:
        return {}
    columns = [window.take(name, rows) for name in _TYPES]
    lists = [
        micros(column) if name in _TIMES else column.to_pylist()
        for name, column in zip(_TYPES, columns, strict=True)
    ]
    return {at: VersionFacts(*said) for at, *said in zip(rows, *lists, strict=True)}
