"""A slice of bronze records, and what of it was read by columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, compress
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from silver.decode.change import Record
from silver.decode.shapes import RowShape, find_utf8_places

MOST_SHAPES, FEWEST = 4, 16
"""So many shapes of a slice are read by columns, each of which has so many records at least."""
_TRIED = 4


class _OfRows(Protocol):
    @property
    def row(self) -> RowShape: ...


_Shape = TypeVar("_Shape", bound=_OfRows)


class Slice:
    """Some records of bronze, one entry of each column per record."""

    def __init__(
        self,
        part: pa.RecordBatch,
        names: Sequence[str],
        read: Callable[[pa.RecordBatch], Iterable[Record]] = lambda _: (),
    ) -> None:
        self.part = part
        self._names, self._read = names, read
        self._listed: dict[str, list[Any]] = {}

    def column(self, name: str) -> list[Any]:
        """The values of a column of bronze."""
        if name not in self._listed:
            self._listed[name] = self.part.column(name).to_pylist()
        return self._listed[name]

    @cached_property
    def places(self) -> list[int]:
        """The places of records that are texts in UTF-8."""
        return find_utf8_places(self.part.column("_raw"), self.column("_raw"))

    def record(self, at: int) -> Record:
        """The record at a place."""
        return Record(*[self.part.column(name)[at].as_py() for name in self._names])

    def records(self, indices: Sequence[int]) -> Iterable[Record]:
        """The records at these indices, out of their serializers' frames and parsed if Avro."""
        if len(indices) == self.part.num_rows:
            return self._read(self.part)
        return self._read(self.part.take(pa.array(indices, pa.int64())))

    def take(self, places: Sequence[int]) -> "Slice":
        """The records at these places, each as often as it is named."""
        return Slice(self.part.take(pa.array(places, pa.int64())), self._names, self._read)

    def split(self) -> "Iterator[Slice]":
        """The records as slices of one."""
        for at in range(self.part.num_rows):
            yield Slice(self.part.slice(at, 1), self._names, self._read)

    def has_any(self, name: str) -> bool:
        """Whether a column has values."""
        return bool(self.part.column(name).null_count < self.part.num_rows)


class ReadPart(NamedTuple):
    """Changes that were read by columns.

    Attributes:
        places: the places of their records in the slice, in order; of several changes of one
            record the same.
        columns: their values by name, of columns and of `CHANGE_FIELDS`; a missing name is null.
        facts: lists with an entry for each change, which the slice's reader keeps for itself.
    """

    places: list[int]
    columns: dict[str, pa.Array]
    facts: Sequence[Sequence[Any]] = ()

    def only(self, fits: Sequence[bool]) -> "ReadPart":
        """The part with only the changes whose `fits` is true."""
        if all(fits):
            return self
        mask = pa.array(fits)
        columns = {name: values.filter(mask) for name, values in self.columns.items()}
        facts = [list(compress(fact, fits)) for fact in self.facts]
        return ReadPart(list(compress(self.places, fits)), columns, facts)


class Decoder(Protocol):
    """Decodes the records of one table. Built once per task, from a table and its columns."""

    def read(self, records: Slice) -> ReadPart:
        """The changes that the records say; one that cannot be read is a dead letter."""
        ...


@runtime_checkable
class FollowsLog(Protocol):
    """A decoder that follows the source's log."""

    def segments(self) -> str | None:
        """The segments followed so far, as JSON; None without any."""
        ...


def read_shapes(
    places: list[int],
    shape_at: Callable[[int], _Shape | None],
    read: Callable[[_Shape, list[int]], ReadPart],
) -> ReadPart | None:
    """Reads records shape by shape, each time those of the first ones' most usual shape.

    Args:
        places: the places of the records.
        shape_at: the shape of the record at a place; None where it has to be decoded alone.
        read: reads those of some records that have a shape.
    """
    parts: list[ReadPart] = []
    while len(places) >= FEWEST and len(parts) < MOST_SHAPES:
        shapes = [one for at in places[:_TRIED] if (one := shape_at(at)) is not None]
        if not shapes:
            break
        part = read(max(shapes, key=lambda one: (shapes.count(one), len(one.row.names))), places)
        parts.append(part)
        if len(part.places) == len(places) or 4 * len(part.places) < len(places):
            break
        taken = set(part.places)
        places = [at for at in places if at not in taken]
    return join_parts(parts) if parts else None


def join_parts(parts: Sequence[ReadPart]) -> ReadPart:
    """Parts as one, in the order of the records."""
    if len(parts) == 1:
        return parts[0]
    places = [at for part in parts for at in part.places]
    order = np.argsort(np.array(places, np.int64), kind="stable")
    tables = [pa.table(part.columns) for part in parts]
    table = pa.concat_tables(tables, promote_options="default").take(pa.array(order))
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    merged = [[*chain(*lists)] for lists in zip(*[part.facts for part in parts], strict=True)]
    facts = [[fact[at] for at in order] for fact in merged]
    return ReadPart([places[at] for at in order], columns, facts)
