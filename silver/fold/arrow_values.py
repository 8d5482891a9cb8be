"""Rows of record batches as one window: which neighbours are equal, and rows taken by source."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from silver.fold.rules import NOWHERE, Changes
from silver.fold.versions import Content

Ints = npt.NDArray[np.int64]


class Window:
    """The rows of one record batch, and before them those that the open key still needs.

    A row's index in the window is its source.
    """

    def __init__(self, carried: pa.Table | None, batch: pa.RecordBatch | None) -> None:
        parts = [] if carried is None else [carried]
        if batch is not None:
            parts.append(pa.Table.from_batches([batch]))
        self.begin = 0 if carried is None else carried.num_rows
        self._rows = pa.concat_tables(parts)
        self._columns: dict[str, pa.Array] = {}
        self.size = self._rows.num_rows
        self.names = frozenset(self._rows.column_names)

    def column(self, name: str) -> pa.Array:
        """A column as one array."""
        if name not in self._columns:
            chunks = self._rows.column(name).combine_chunks()
            whole = isinstance(chunks, pa.ChunkedArray)
            self._columns[name] = pa.concat_arrays(chunks.chunks) if whole else chunks
        return self._columns[name]

    def has_any(self, name: str) -> bool:
        """Whether the column is there with any value."""
        return name in self.names and self.column(name).null_count < self.size

    def take(self, name: str, sources: Sequence[int] | Ints) -> pa.Array:
        """The values of a column by source; null for NOWHERE."""
        wanted = pa.array(sources, pa.int64())
        if NOWHERE in sources:
            wanted = pc.if_else(pc.equal(wanted, NOWHERE), None, wanted)
        return self.column(name).take(wanted)

    def keep(self, sources: Iterable[int]) -> tuple[pa.Table, dict[int, int]]:
        """The rows of some sources, to be carried on, and the new source of each."""
        kept = sorted({*sources} - {NOWHERE})
        moved = {source: at for at, source in enumerate(kept)} | {NOWHERE: NOWHERE}
        return self._rows.take(pa.array(kept, pa.int64())).combine_chunks(), moved

    def begins(self, keys: Sequence[str]) -> list[int]:
        """The rows after the carried ones at which another key begins than the row before has."""
        same = equals_previous([comparable(self.column(key)) for key in keys])
        first = [0] if self.begin == 0 else []
        return first + [at for at in range(max(self.begin, 1), self.size) if not same[at]]


class ContentComparison:
    """Whether two rows of a window agree on some columns; null agrees with null only."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._compared: dict[str, pa.Array | list[str]] = {}
        self._values: dict[str, list[object]] = {}
        self._same: list[bool] | None = None

    def look_at(self, window: Window) -> None:
        """Goes on to another window."""
        self._compared = {c: comparable(window.column(c)) for c in self._columns}
        self._values, self._same = {}, None

    def agree(self, one: Content, other: Content) -> bool:
        """Compares the rows column by column; neighbours in the window are compared all at once."""
        if one.parts is None and other.parts is None and other.source == one.source + 1:
            if self._same is None:
                self._same = equals_previous(list(self._compared.values()))
            return not self._columns or self._same[other.source]
        return all(
            self._value(column, _source(one, column)) == self._value(column, _source(other, column))
            for column in self._columns
        )

    def _value(self, column: str, source: int) -> object:
        if source == NOWHERE:
            return None
        if column not in self._values:
            found = self._compared[column]
            self._values[column] = list(found) if isinstance(found, list) else found.to_pylist()
        return self._values[column][source]


def _source(content: Content, column: str) -> int:
    return content.source if content.parts is None else content.parts.get(column, content.source)


def comparable(values: pa.Array) -> pa.Array | list[str | None]:
    """The values in a form in which equal ones are equal: NaN equals NaN, and 0.0 equals -0.0.

    Nested values become text.
    """
    if pa.types.is_floating(values.type):
        wide = values.cast(pa.float64())
        whole = pc.add(wide, 0.0)
        told = pc.if_else(pc.is_nan(whole), float("nan"), whole)
        return told.view(pa.int64())
    if pa.types.is_nested(values.type):
        return [None if value is None else repr(value) for value in values.to_pylist()]
    return values


def equals_previous(columns: Sequence[pa.Array | list[str | None]]) -> list[bool]:
    """Whether each row equals the row before it in all columns; false for the first row."""
    if not columns:
        return []
    same: pa.Array | None = None
    for values in columns:
        found = _equals_previous(values)
        same = found if same is None else pc.and_(same, found)
    return [False, *(same.to_pylist() if same is not None else [])]


def _equals_previous(values: pa.Array | list[str | None]) -> pa.Array:
    array = pa.array(values, pa.string()) if isinstance(values, list) else values
    before, after = array[:-1], array[1:]
    if pa.types.is_null(array.type):
        return pa.array([True] * len(after))
    same = pc.equal(before, after)
    if not array.null_count:
        return same
    both_null = pc.and_(pc.is_null(before), pc.is_null(after))
    return pc.or_(pc.fill_null(same, False), both_null)


def changes_of(window: Window, grouped: Sequence[str]) -> Changes:
    """The rows of a window as the law takes them."""
    upsert = pc.fill_null(pc.equal(window.column("_operation"), "upsert"), False)
    own = None
    if grouped and window.has_any("_group_sequences"):
        maps = window.column("_group_sequences").to_pylist()
        own = [dict(found) if found else None for found in maps]
    return Changes(
        window.column("_order").to_pylist(),
        upsert.to_pylist(),
        window.column("_digest").to_pylist(),
        pc.fill_null(window.column("_new"), False).to_pylist(),
        window.column("_absent").to_pylist() if window.has_any("_absent") else None,
        own,
    )


def stored_rows(window: Window) -> list[int]:
    """The rows of the stored table."""
    if not window.has_any("_stored"):
        return []
    return [at for at, stored in enumerate(window.column("_stored").to_pylist()) if stored]


def micros(times: pa.Array) -> list[int | None]:
    """Timestamps as µs since 1970."""
    found: list[int | None] = (
        times.cast(pa.timestamp("us", times.type.tz)).cast("int64").to_pylist()
    )
    return found
