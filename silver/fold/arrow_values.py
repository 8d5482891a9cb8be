"""Rows of record batches as one window: the keys in it, and rows taken by source."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.law import Content, KeyFold
from silver.fold.rules import NO_SOURCE, TIES, Changes, FoldRules

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Key = TypeVar("Key", bound=KeyFold)


class Window:
    """The rows of one record batch, and before them those that the open key still needs.

    A row's index in the window is its source.
    """

    def __init__(self, carried: pa.Table | None, batch: pa.RecordBatch | None) -> None:
        parts = [] if carried is None else [carried]
        if batch is not None:
            parts.append(pa.Table.from_batches([batch]))
        self.carried_size = 0 if carried is None else carried.num_rows
        self._rows = pa.concat_tables(parts)
        self._columns: dict[str, pa.Array] = {}
        self.size = self._rows.num_rows
        self.names = frozenset(self._rows.column_names)

    def column(self, name: str) -> pa.Array:
        """A column as one array."""
        if name not in self._columns:
            column = self._rows.column(name).combine_chunks()
            is_chunked = isinstance(column, pa.ChunkedArray)
            self._columns[name] = pa.concat_arrays(column.chunks) if is_chunked else column
        return self._columns[name]

    def has_values(self, name: str) -> bool:
        """Whether there is a column of this name with a value that is not null."""
        return name in self.names and self.column(name).null_count < self.size

    def take(self, name: str, index: pa.Array) -> pa.Array:
        """The values of a column at an index (see `index_of`); null for null."""
        return self.column(name).take(index)

    def keep_rows(self, sources: Iterable[int]) -> tuple[pa.Table, dict[int, int]]:
        """The rows that the next window carries, and by source their numbers in that window."""
        kept = sorted({*sources} - {NO_SOURCE})
        numbers = {source: at for at, source in enumerate(kept)} | {NO_SOURCE: NO_SOURCE}
        return self._rows.take(pa.array(kept, pa.int64())).combine_chunks(), numbers

    def find_begins(self, keys: Sequence[str]) -> Ints:
        """The rows of the record batch at which another key begins."""
        differs = ~equals_previous([to_comparable(self.column(key)) for key in keys])
        differs[: self.carried_size] = False
        return np.flatnonzero(differs)


def index_of(sources: Sequence[int] | Ints) -> pa.Array:
    """Sources as an index of rows: null for NO_SOURCE."""
    index = np.asarray(sources, np.int64)
    return pa.array(index, mask=index == NO_SOURCE)


class Folder(ABC, Generic[Key]):
    """Folds the keys of windows, one after the other, into rows.

    The last key of a window stays open: its changes may go on in the next one.
    """

    def __init__(self, rules: FoldRules, keys: Sequence[str]) -> None:
        self.rules, self.keys = rules, keys
        self.key: Key | None = None
        self.counts = Counter[str]()

    def fold(self, window: Window) -> None:
        """Folds the rows of a window; ends the keys that end in it."""
        self.set_window(window)
        begins = window.find_begins(self.keys)
        plain = self.find_plain(begins)
        rows = _list_rows_to_fold(window, begins, plain)
        self.changes = self.read_rows(rows)
        bounds = [*np.searchsorted(rows, begins).tolist(), len(rows)]
        if bounds[0]:
            self._fold_rows(0, bounds[0])
        for begin, end, is_plain in zip(bounds, bounds[1:], [*plain.tolist(), False], strict=False):
            self.end_key()
            if not is_plain:
                self.key = self.begin_key()
                self._fold_rows(begin, end)

    def end_key(self) -> None:
        """Ends the open key, if there is one."""
        key, self.key = self.key, None
        if key is not None:
            self.close_key(key)
            self.counts.update(key.outcomes)
            self.counts[TIES] += key.ties

    def _fold_rows(self, begin: int, end: int) -> None:
        if self.key is not None:
            self.fold_rows(self.key, begin, end)

    def set_window(self, window: Window) -> None:
        """Goes on to the next window."""
        self.window = window

    def sources(self) -> set[int]:
        """The rows that the open key still needs."""
        return self.key.sources() if self.key is not None else set()

    def renumber_sources(self, numbers: Mapping[int, int]) -> None:
        """Gives each row that the open key needs its new number."""
        if self.key is not None:
            self.key.renumber_sources(numbers)

    def take_values(
        self, contents: Sequence[Content], index: Callable[[Sequence[int]], pa.Array]
    ) -> dict[str, pa.Array]:
        """The values of rows by column; `index` makes an index of one source for each row."""
        row_sources = [content.source for content in contents]
        by_column: dict[str, list[int]] = {}
        for at, content in enumerate(contents):
            for column in content.parts:
                if column not in by_column:
                    by_column[column] = list(row_sources)
                by_column[column][at] = content.source_of(column)
        default = index(row_sources)
        special = {column: index(sources) for column, sources in by_column.items()}
        return {c: self.window.take(c, special.get(c, default)) for c in self.rules.columns}

    def find_plain(self, begins: Ints) -> Bools:
        """Which of the keys that end in the window are plain: the loop leaves them out."""
        return np.zeros(max(len(begins) - 1, 0), np.bool_)

    @abstractmethod
    def read_rows(self, rows: Ints) -> Changes:
        """The rows that the loop folds, as the law takes them."""

    @abstractmethod
    def begin_key(self) -> Key:
        """Begins a key."""

    @abstractmethod
    def fold_rows(self, key: Key, begin: int, end: int) -> None:
        """Folds rows that were read."""

    @abstractmethod
    def close_key(self, key: Key) -> None:
        """Ends a key."""

    @abstractmethod
    def take_output(self) -> dict[str, pa.Array]:
        """The rows of the closed keys, as columns."""


def _list_rows_to_fold(window: Window, begins: Ints, plain: Bools) -> Ints:
    """The rows of the record batch but for those of plain keys."""
    change = np.zeros(window.size + 1, np.int8)
    change[begins[:-1][plain]] += 1
    change[begins[1:][plain]] -= 1
    left = np.cumsum(change[:-1], dtype=np.int8) == 0
    left[: window.carried_size] = False
    return np.flatnonzero(left)


class ContentComparison:
    """Whether two rows of a window agree on some columns; null agrees with null only."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._compared: dict[str, pa.Array | list[str]] = {}
        self._values: dict[str, list[object]] = {}
        self._same: list[bool] | None = None
        self._size = 0

    def set_window(self, window: Window) -> None:
        """Goes on to the next window."""
        self._compared = {c: to_comparable(window.column(c)) for c in self._columns}
        self._values, self._same, self._size = {}, None, window.size

    def equals_previous(self) -> Bools:
        """Whether each row of the window agrees with the row before it."""
        if not self._columns:
            return np.ones(self._size, np.bool_)
        return equals_previous(list(self._compared.values()))

    def agree(self, row: Content, later: Content) -> bool:
        """Compares the rows column by column; neighbours in the window are compared all at once."""
        if not row.parts and not later.parts and later.source == row.source + 1:
            if self._same is None:
                self._same = self.equals_previous().tolist()
            return self._same[later.source]
        return all(
            self._find_value(column, row.source_of(column))
            == self._find_value(column, later.source_of(column))
            for column in self._columns
        )

    def _find_value(self, column: str, source: int) -> object:
        if source == NO_SOURCE:
            return None
        if column not in self._values:
            values = self._compared[column]
            self._values[column] = list(values) if isinstance(values, list) else values.to_pylist()
        return self._values[column][source]


def to_comparable(values: pa.Array) -> pa.Array | list[str | None]:
    """The values in a form in which equal ones are equal: NaN equals NaN, and 0.0 equals -0.0.

    Nested values become text.
    """
    if pa.types.is_floating(values.type):
        doubles = pc.add(values.cast(pa.float64()), 0.0)
        return pc.if_else(pc.is_nan(doubles), float("nan"), doubles).view(pa.int64())
    if pa.types.is_nested(values.type):
        return [None if value is None else repr(value) for value in values.to_pylist()]
    return values


def equals_previous(columns: Sequence[pa.Array | list[str | None]]) -> Bools:
    """Whether each row equals the row before it in all columns; false for the first row."""
    if not columns:
        return np.zeros(0, np.bool_)
    equal = [_equals_previous(values) for values in columns]
    same = np.zeros(len(equal[0]) + 1, np.bool_)
    same[1:] = np.logical_and.reduce([to_bools(each) for each in equal])
    return same


def to_bools(values: pa.Array) -> Bools:
    """A boolean column; null is false."""
    bools: Bools = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return bools


def _equals_previous(values: pa.Array | list[str | None]) -> pa.Array:
    array = pa.array(values, pa.string()) if isinstance(values, list) else values
    before, after = array[:-1], array[1:]
    if pa.types.is_null(array.type):
        return pa.array([True] * len(after), pa.bool_())
    same = pc.equal(before, after)
    if not array.null_count:
        return same
    both_null = pc.and_(pc.is_null(before), pc.is_null(after))
    return pc.or_(pc.fill_null(same, False), both_null)


def read_changes(window: Window, rows: Ints, grouped: Sequence[str]) -> Changes:
    """Rows of a window as the law takes them."""
    has_all, index = len(rows) == window.size, pa.array(rows)

    def column(name: str) -> pa.Array:
        return window.column(name) if has_all else window.take(name, index)

    def optional(name: str) -> list[Any] | None:
        return column(name).to_pylist() if window.has_values(name) else None

    maps = optional("_group_sequences") if grouped else None
    return Changes(
        rows.tolist(),
        column("_order").to_pylist(),
        to_bools(pc.equal(column("_operation"), "upsert")).tolist(),
        column("_digest").to_pylist(),
        to_bools(column("_new")).tolist(),
        optional("_absent"),
        maps and [dict(entry) if entry else None for entry in maps],
        optional("_moved_from"),
        optional("_belongs_to"),
    )


def find_stored_rows(window: Window, rows: Ints) -> Ints:
    """Which of some rows are stored ones, by their index among these."""
    if not window.has_values("_stored"):
        return np.zeros(0, np.int64)
    return np.flatnonzero(to_bools(window.column("_stored"))[rows])


def to_micros(times: pa.Array) -> pa.Array:
    """Timestamps as µs since 1970."""
    return times.cast(pa.timestamp("us", times.type.tz)).cast("int64")
