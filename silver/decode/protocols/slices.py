"""Flat rows by slices: rows of one shape become columns, without a call for each value.

The decoder of the format reads all others one by one: values that do not fit, members that no
column holds, rows without a key, texts that are no JSON object.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from silver.decode.columns import Columns, DecodedColumn
from silver.decode.protocols.objects import FlatRowReader, row_object
from silver.decode.shapes import (
    Parsed,
    RowShape,
    can_be_fields,
    parse_alike,
    parser_of_shape,
)
from silver.decode.slices import ReadPart, Slice, read_shapes
from silver.decode.types import arrow_type, carrier_type
from silver.decode.values.bulk import (
    BulkConverter,
    bulk_converter,
    bulk_text,
    convert_column,
    exact_doubles,
    without_empty_texts,
)

Spell = Callable[[tuple[str, ...]], Collection[str]]
_TRIED = 4
_UTC = pa.timestamp("us", tz="UTC")


class FlatShape(NamedTuple):
    """How rows of one shape are read.

    Attributes:
        row: the struct of the rows.
        parse: from a record's text to the row, or to what a format makes of the struct.
        names: the names of the members as columns spell them, in the order of the row's fields.
        absent: the columns that a row leaves out; None for a row that carries all.
        needed: the places of members that must have a value.
        unknown: the places of members that must have none.
        complete: whether a column that a row leaves out is null.
    """

    row: RowShape
    parse: Callable[[bytes], Any]
    names: Sequence[str]
    absent: list[str] | None
    needed: Sequence[int]
    unknown: Sequence[int]
    complete: bool


class FlatColumns:
    """Reads the values of one table's rows by columns, whose names `spell` gives for fields."""

    def __init__(self, columns: Columns, reader: FlatRowReader, spell: Spell) -> None:
        self._columns = columns.columns
        self._settled = columns.settled
        self._reader, self._spell = reader, spell
        self._types = [arrow_type(carrier_type(column.type)) for column in self._columns]
        self._bulk = [self._bulk_of(c, t) for c, t in zip(self._columns, self._types, strict=True)]
        self._shapes: dict[tuple[object, ...], FlatShape | None] = {}

    def shape(
        self,
        names: tuple[str, ...],
        make: Callable[[type[Any]], type[Any]] = lambda row: row,
        keys: Sequence[str] = (),
        complete: bool = False,
    ) -> FlatShape | None:
        """The shape of rows with these names, None where they are read one by one.

        `make` makes of the struct of the rows what records are parsed into; `keys` are members that
        stand beside the row.
        """
        given = names, complete
        if given not in self._shapes:
            self._shapes[given] = self._make_shape(names, make, keys, complete)
        return self._shapes[given]

    def convert(
        self, shape: FlatShape, rows: Sequence[Any], keys: Sequence[tuple[str, Sequence[Any]]] = ()
    ) -> tuple[dict[str, pa.Array], list[bool], dict[str, Sequence[Any]]]:
        """The columns of rows, which of the rows are plain, and their members by name."""
        fits = [True] * len(rows)
        values = shape.row.columns(rows)
        needed = {shape.names[at] for at in shape.needed}
        for at in shape.unknown:
            fits = [one and v is None for one, v in zip(fits, values[at], strict=True)]
        members = dict(zip(shape.names, values, strict=True)) | dict(keys)
        columns: dict[str, pa.Array] = {}
        for at, (name, convert) in enumerate(self._reader.readers):
            given = members.get(name)
            if given is not None:
                target = self._bulk[at], self._types[at]
                columns[self._columns[at].name], misfits = convert_column(given, convert, *target)
                for misfit in misfits:
                    fits[misfit] = False
                column = columns[self._columns[at].name]
                if name in needed and column.null_count:
                    there = column.is_valid().to_pylist()
                    fits = [one and is_there for one, is_there in zip(fits, there, strict=True)]
        return columns, fits, members

    def _make_shape(
        self,
        names: tuple[str, ...],
        make: Callable[[type[Any]], type[Any]],
        keys: Sequence[str],
        complete: bool,
    ) -> FlatShape | None:
        if not can_be_fields(names):
            return None
        spelled = list(self._spell(names))
        if len({*spelled}) < len(spelled):
            return None
        judged = self._reader.judge([*dict.fromkeys([*spelled, *keys])], complete)
        if judged is None:
            return None
        needed = [
            at for at, name in enumerate(spelled) if name in judged.needed and name not in keys
        ]
        unknown = [at for at, name in enumerate(spelled) if name in judged.unknown]
        doubles = {
            c.name for c, t in zip(self._columns, self._types, strict=True)
            if t == pa.float64() and c.declared
        }  # fmt: skip
        row = RowShape(names, [n for n, s in zip(names, spelled, strict=True) if s in doubles])
        parse = parser_of_shape(make(row.struct))
        return FlatShape(row, parse, spelled, judged.absent, needed, unknown, complete)

    def _bulk_of(self, column: DecodedColumn, type: pa.DataType) -> BulkConverter | None:
        if column.provisional and not self._settled and isinstance(column.type, T.StringType):
            return partial(bulk_text, type)
        bulk = bulk_converter(None, column.type, type)
        if isinstance(column.type, T.BinaryType) or bulk is None:
            return None
        if isinstance(column.type, T.DecimalType) and self._reader.tells_decimals:
            return None
        if isinstance(column.type, T.DoubleType) and not column.declared:
            bulk = exact_doubles
        if self._reader.reads_csv and not isinstance(column.type, T.StringType):
            bulk = without_empty_texts(bulk)
        return bulk


def read_rows(
    records: Slice,
    places: list[int],
    shape_of: Callable[[Mapping[str, object]], FlatShape | None],
    part_of: Callable[[FlatShape, Parsed], ReadPart],
) -> ReadPart | None:
    """Reads the rows at these places, shape by shape.

    `shape_of` gives the shape of an object's row, and `part_of` makes changes of such rows.
    """
    texts = records.column("_raw")

    def read(left: list[int]) -> tuple[ReadPart | None, list[int]]:
        for nth, at in enumerate(left[:_TRIED]):
            row = row_object(texts[at])
            shape = shape_of(row) if row else None
            if shape is not None:
                part = part_of(shape, parse_alike(shape.parse, texts, left[nth:]))
                taken = set(part.places)
                return part, [at for at in left[nth:] if at not in taken]
        return None, left

    return read_shapes(places, read)


def without_folder_columns(records: Slice) -> list[int]:
    """The places of texts whose files lie in no folder that gives a column."""
    if not records.has_any("_file"):
        return records.places
    files = records.column("_file")
    plain = {file: file is None or "=" not in file for file in {*files}}
    return [at for at in records.places if plain[files[at]]]


def without_texts(records: Slice, places: list[int], texts: Sequence[bytes]) -> list[int]:
    """The places of records that contain none of the texts."""
    raws = records.part.column("_raw")
    for text in texts:
        matches = pc.match_substring(raws, text.decode())
        if matches.true_count:
            having = matches.to_pylist()
            places = [at for at in places if not having[at]]
    return places


def record_times(records: Slice, places: Sequence[int]) -> pa.Array:
    """The time of each record: its own, else that of its arrival."""
    stamped, arrived = (records.part.column(name) for name in ("_timestamp", "_arrived_at"))
    return pc.coalesce(stamped, arrived).take(pa.array(places, pa.int64())).cast(_UTC)


def repeat_value(value: object, count: int, type: pa.DataType) -> pa.Array:
    """A column of one value."""
    return pa.array([value] * count, type)
