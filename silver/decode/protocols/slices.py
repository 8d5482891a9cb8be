"""Reads slices of flat rows: rows of one shape become columns, without a call for each value.

The format's decoder reads all other rows one by one: those with values that do not fit, members
that no column holds, or no key, and texts that are no JSON object.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from silver.decode.columns import Columns, DecodedColumn
from silver.decode.protocols.objects import FlatRowReader, RowNames, row_object
from silver.decode.shapes import Parsed, RowShape, can_be_fields, parse_alike, parser_of_shape
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

_Spell = Callable[[tuple[str, ...]], Collection[str]]
_UTC = pa.timestamp("us", tz="UTC")


class FlatShape(NamedTuple):
    """How rows of one shape are read.

    Attributes:
        row: the struct of the rows.
        parse: from a record's text to the row, or to what a format makes of the struct.
        names: the columns' spellings of the row's fields, in the order of these.
        said: what these names say of a row.
        complete: whether a column that a row leaves out is null.
    """

    row: RowShape
    parse: Callable[[bytes], Any]
    names: Sequence[str]
    said: RowNames
    complete: bool


class FlatColumns:
    """Reads the values of one table's rows by columns.

    `spell` gives the columns' spellings of a row's fields. Where rows are members of events,
    `event_of` makes the struct of an event from that of its row, and `keys` stand beside the row.

    Attributes:
        shape: the shape of rows with these fields, None where they are read one by one.
    """

    def __init__(
        self,
        columns: Columns,
        reader: FlatRowReader,
        spell: _Spell,
        event_of: Callable[[type[Any]], type[Any]] = lambda row: row,
        keys: Sequence[str] = (),
    ) -> None:
        self._columns = columns.columns
        self._settled = columns.settled
        self._reader, self._spell, self._event_of, self._keys = reader, spell, event_of, keys
        self._no_bulk: tuple[type, ...] = (T.BinaryType,)
        if reader.has_encoded_decimals:
            self._no_bulk += (T.DecimalType,)
        self._types = [arrow_type(carrier_type(column.type)) for column in self._columns]
        typed = [*zip(self._columns, self._types, strict=True)]
        self._bulk = [self._choose_bulk(column, type) for column, type in typed]
        self._doubles = {c.name for c, type in typed if type == pa.float64() and c.declared}
        self.shape = lru_cache(maxsize=None)(self._make_shape)

    def convert(
        self,
        shape: FlatShape,
        rows: Sequence[Any],
        keys: Mapping[str, Sequence[Any]] | None = None,
    ) -> tuple[dict[str, pa.Array], list[bool], dict[str, Sequence[Any]]]:
        """The columns of rows, whether each row fits them, and the values of each member."""
        members = dict(zip(shape.names, shape.row.columns(rows), strict=True)) | dict(keys or {})
        odd = {at for n in shape.said.unknown for at, v in enumerate(members[n]) if v is not None}
        columns: dict[str, pa.Array] = {}
        for at, (name, convert) in enumerate(self._reader.readers):
            if name not in members:
                continue
            bulk, type = self._bulk[at], self._types[at]
            values, misfits = convert_column(members[name], convert, bulk, type)
            columns[self._columns[at].name] = values
            odd.update(misfits)
            if name in shape.said.needed and values.null_count:
                odd.update(pc.indices_nonzero(values.is_null()).to_pylist())
        fits = [True] * len(rows)
        for at in odd:
            fits[at] = False
        return columns, fits, members

    def _make_shape(self, names: tuple[str, ...], complete: bool = False) -> FlatShape | None:
        if not can_be_fields(names):
            return None
        spelled = list(self._spell(names))
        if len({*spelled}) < len(spelled):
            return None
        said = self._reader.judge_names([*dict.fromkeys([*spelled, *self._keys])], complete)
        if said is None:
            return None
        pairs = zip(names, spelled, strict=True)
        row = RowShape(names, [name for name, column in pairs if column in self._doubles])
        parse = parser_of_shape(self._event_of(row.struct))
        said = said._replace(needed={*said.needed}.difference(self._keys))
        return FlatShape(row, parse, spelled, said, complete)

    def _choose_bulk(self, column: DecodedColumn, type: pa.DataType) -> BulkConverter | None:
        """The converter of all values of a column together; None where each is converted alone."""
        if column.provisional and not self._settled and isinstance(column.type, T.StringType):
            return partial(bulk_text, type)
        bulk = bulk_converter(None, column.type, type)
        if isinstance(column.type, self._no_bulk) or bulk is None:
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
    part_of: Callable[[Slice, FlatShape, Parsed], ReadPart],
) -> ReadPart | None:
    """Reads the rows at these places, shape by shape.

    `shape_of` gives the shape of the row in an object, and `part_of` makes changes of such rows.
    """
    texts = records.column("_raw")

    def shape_at(at: int) -> FlatShape | None:
        row = row_object(texts[at])
        return shape_of(row) if row else None

    def read(shape: FlatShape, places: list[int]) -> ReadPart:
        return part_of(records, shape, parse_alike(shape.parse, texts, places))

    return read_shapes(places, shape_at, read)


def skip_hive_folders(records: Slice) -> list[int]:
    """The places of texts, but for files in folders `column=value`, which are columns of a row."""
    if not records.has_any("_file"):
        return records.places
    files = records.column("_file")
    outside = {file: file is None or "=" not in file for file in {*files}}
    return [at for at in records.places if outside[files[at]]]


def skip_texts(records: Slice, places: list[int], texts: Sequence[bytes]) -> list[int]:
    """The places, but for records that contain one of the texts."""
    raws = records.part.column("_raw")
    for text in texts:
        matches = pc.match_substring(raws, text.decode())
        if matches.true_count:
            matched = matches.to_pylist()
            places = [at for at in places if not matched[at]]
    return places


def record_times(records: Slice, places: Sequence[int]) -> pa.Array:
    """The time of each record: its own, else that of its arrival."""
    stamped, arrived = (records.part.column(name) for name in ("_timestamp", "_arrived_at"))
    return pc.coalesce(stamped, arrived).take(pa.array(places, pa.int64())).cast(_UTC)
