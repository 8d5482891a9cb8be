"""How rows are read: which field is which column, and by which converter.

Rows of a source have few shapes. What follows from the schema block and the names of the fields is
decided once for all rows of that shape, whether they are read by columns or one by one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.avro.values import avro_converter_of
from silver.decode.change import Record
from silver.decode.columns import (
    Columns,
    DecodedColumn,
    adds_columns,
    column_limit,
    is_published,
    is_wanted,
    required_columns,
)
from silver.decode.debezium.events.envelope import (
    OF_SOURCE,
    Envelope,
    Row,
    SourceBlock,
    Transaction,
    key_row,
)
from silver.decode.debezium.events.flattened import PREFIX, AddedMembers
from silver.decode.debezium.events.placeholders import Placeholders, can_be_placeholder
from silver.decode.renames import by_column, column_names
from silver.decode.shapes import RowShape
from silver.decode.types import Misfit, arrow_type, carrier_type, wider_type
from silver.decode.values.bulk import BulkConverter, bulk_converter
from silver.decode.values.converters import converter_of, handle_infinity, plain_value, refuse
from silver.decode.values.encodings import (
    Encoding,
    Kind,
    Unit,
    assume_encoding,
    block_fields,
    in_mode,
    is_avro_block,
    row_block_fields,
)
from silver.decode.values.json_values import json_text
from silver.decode.values.numbers import Converter, round_to_single

_MOST_PLANS = 1_024
_UNITS: Mapping[str, Unit] = {"ts_ms": "ms", "ts_us": "us", "ts_ns": "ns"}
_GROWN = (T.FloatType(), T.DoubleType())
"""The types of a field and of its column that has grown."""

Values = list[object]
Misfits = dict[int, object]
"""Values that do not fit, by the place of their column."""


class Reading(NamedTuple):
    """How the values of a field become a column's.

    Attributes:
        field: the field, or the member of a source block or key.
        at: the column's place.
        convert: the converter of one value.
        bulk: that of many; None without one.
    """

    field: str
    at: int
    convert: Converter
    bulk: BulkConverter | None = None

    def read(self, value: object) -> object:
        """A value as the column has it; a null as it is."""
        return None if value is None else self.convert(value)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows with certain fields are read.

    Attributes:
        readings: the fields that are columns; of several that are one column, the best name last.
        keys: those of them that are keys.
        large: those whose value the source can leave out.
        unknown: fields without a column that could have one.
        unfit: whether some field can have no column beside the row's others.
        mismatched: whether the fields are not those that the source announced, or the block is new.
    """

    readings: Sequence[Reading]
    keys: Sequence[Reading]
    large: Sequence[Reading]
    unknown: Sequence[str]
    unfit: bool
    mismatched: bool


class EventShape(NamedTuple):
    """How records of one shape are parsed and read.

    Attributes:
        row: the struct of their rows.
        old: that of their old rows, which may have the fields of the keys alone.
        plan: what becomes of the rows' fields.
        keys: the fields of the keys, and their places in the row.
        prefix: what the texts of all such records begin with, which is not parsed.
        added: the members that a transform added to the row; None for full envelopes.
        parse: from the text of a record to its event, or to its row if it is flattened.
    """

    row: RowShape
    old: RowShape
    plan: RowPlan
    keys: Mapping[str, int]
    prefix: bytes = b""
    added: AddedMembers | None = None
    parse: Callable[[bytes], Any] = bytes

    def keys_of(self, row: object) -> Sequence[object]:
        """The values of the keys in a row."""
        values = self.row.values_of(row)
        return [values[at] for at in self.keys.values()]

    def old_keys_of(self, row: object) -> Sequence[object]:
        """The values of the keys in an old row."""
        return self.keys_of(row) if self.old is self.row else self.old.values_of(row)

    def deleted(self, row: object, keys: Sequence[object]) -> object:
        """A row that has the keys alone, and what a transform added to this old row."""
        values: list[object] = [None] * len(self.row.names)
        if self.added is not None:
            members = zip(self.row.names, self.row.values_of(row), strict=True)
            values = [value if name.startswith(PREFIX) else None for name, value in members]
        for at, key in zip(self.keys.values(), keys, strict=True):
            values[at] = key
        return self.row.make(values)


class TableLayout:
    """What all rows of a table have in common.

    Attributes:
        places: where each column stands, by its name in lower case.
        keys: the places of the keys.
        origins: how columns are read from the source block or the record's key instead of the row.
        taken: the places of these columns.
        types: the columns' Arrow types.
        needed: the places of keys and required columns.
        required: the places of columns without which an upsert is a dead letter.
        truncates_mix: whether a truncate would be applied, and is of one of several source tables.
        placeholders: what stands for values that the source left out.
        grows: whether a new field could become a column.
    """

    def __init__(self, table: Table, columns: Columns) -> None:
        self.table = table
        self.known = columns
        self.columns = columns.columns
        self.source = table.feeds[0]
        self.places = {column.name.lower(): at for at, column in enumerate(self.columns)}
        self.keys = [self.places[name.lower()] for name in table.keys]
        origins = {name: declared.origin for name, declared in table.columns.items()}
        self.origins = [
            Reading(origin, at, _origin_converter(origin, column.type))
            for at, column in enumerate(self.columns)
            if (origin := origins.get(column.name)) is not None
        ]
        self.taken = {one.at for one in self.origins}
        mixes = any(part.startswith(OF_SOURCE) for part in columns.key_parts)
        self.truncates_mix = table.on_truncate == "apply" and (table.is_shared or mixes)
        required = required_columns(table)
        self.required = [at for at, c in enumerate(self.columns) if c.name in required]
        self.needed = {*self.keys, *self.required}
        self.placeholders = Placeholders(self.source.unavailable_value)
        self.types = [arrow_type(carrier_type(column.type)) for column in self.columns]
        self.room = column_limit(self.places)
        self.adds = adds_columns(table)
        self.grows = not columns.settled and self.adds and len(self.places) < self.room

    def column_of(self, field: str) -> DecodedColumn | None:
        """The column that a field is, if it is one."""
        place = self.places.get(field.lower())
        return None if place is None else self.columns[place]

    def are_keys(self, fields: Sequence[str]) -> bool:
        """Whether these fields are the keys, whatever other fields a row has."""
        return not self.table.renamed and [*fields] == [self.columns[at].name for at in self.keys]

    def is_new(self, field: str) -> bool:
        """Whether a field has no column but could have one."""
        return self.adds and self.column_of(field) is None and is_wanted(self.table, field)

    def are_announced(self, fields: Mapping[str, Encoding | None]) -> bool:
        """Whether the source announced exactly these fields, with these types where known."""
        announced = self.known.announced
        if announced is None or self.known.settled or not fields:
            return True
        before = {n: announced[n] for n in announced if self._is_compared(n)}
        shown = self._list_types(fields)
        if shown.keys() != before.keys():
            return False
        return all(None in (type, before[n]) or type == before[n] for n, type in shown.items())

    def _list_types(self, fields: Mapping[str, Encoding | None]) -> dict[str, str | None]:
        """The types of the fields that are columns or can become some; None where unknown."""
        types: dict[str, str | None] = {}
        for field, encoding in fields.items():
            column = self.column_of(field)
            name = field if column is None else column.name
            can_be = column is not None or not self.adds or self.grows
            if can_be and self._is_compared(name):
                types[name] = encoding and encoding.type.simpleString()
        return types

    def read_origins(self, values: Values, envelope: Envelope, record: Record) -> Misfits:
        """Puts the values of the columns with an origin in their places; returns misfits."""
        misfits: Misfits = {}
        for one in self.origins:
            if one.field.startswith(OF_SOURCE):
                value = getattr(envelope.source, one.field.removeprefix(OF_SOURCE), None)
            else:
                value = (key_row(record.key) or {}).get(one.field)
            try:
                values[one.at] = one.read(value)
            except Misfit:
                misfits[one.at] = value
        return misfits

    def json_of(self, values: Sequence[object], places: Iterable[int]) -> str:
        """The columns at these places as one JSON object, without nulls, as `to_json` writes it.

        A timestamp has three digits of fraction, or six where it needs them.
        """
        given = [(self.columns[at], values[at]) for at in places]
        return json_text({c.name: plain_value(v, c.type) for c, v in given if v is not None})

    def _is_compared(self, name: str) -> bool:
        return not name.startswith("_") and is_published(self.table, name)


class RowReader:
    """Plans for rows that one schema block describes, or none.

    The rows of a `loose` reader are documents, each of which has the fields it has.

    Attributes:
        mismatched: whether the block shows columns or types that the table does not know.
    """

    def __init__(
        self, layout: TableLayout, block: bytes | None, sourced: bool, flattened: bool, loose: bool
    ) -> None:
        self._layout, self._sourced, self._loose = layout, sourced, loose
        self._native = block is not None and is_avro_block(block)
        fields_of = row_block_fields if flattened else block_fields
        self._block = {} if block is None else by_column(layout.table, fields_of(block))
        self.mismatched = not layout.known.settled and self._is_new_block()
        self._plan_of = lru_cache(_MOST_PLANS)(self._make_plan)

    def plan(self, row: Iterable[str]) -> RowPlan:
        """How a row with these fields is read."""
        return self._plan_of(tuple(row))

    def _make_plan(self, names: tuple[str, ...]) -> RowPlan:
        layout = self._layout
        columns = column_names(layout.table, names)
        readings = self._plan_fields(zip(names, columns, strict=True))
        held = [r.at for r in readings if is_published(layout.table, layout.columns[r.at].name)]
        others = [reading for reading in readings if layout.keys and reading.at not in layout.keys]
        announced = self._block or self._loose or layout.are_announced(dict.fromkeys(columns))
        return RowPlan(
            readings=readings,
            keys=[reading for reading in readings if reading.at in layout.keys],
            large=[one for one in others if can_be_placeholder(layout.columns[one.at].type)],
            unknown=[n for n, c in zip(names, columns, strict=True) if layout.is_new(c)],
            unfit=len(set(held)) < len(held),
            mismatched=self.mismatched or not announced,
        )

    def _plan_fields(self, fields: Iterable[tuple[str, str]]) -> list[Reading]:
        """How fields are read, each of which comes with the name of its column."""
        layout = self._layout
        places = [(f, n, layout.places.get(n.lower())) for f, n in fields if not n.startswith("_")]
        columns = [(f, n, at) for f, n, at in places if at is not None and at not in layout.taken]
        columns.sort(key=lambda one: one[1] == layout.columns[one[2]].name)
        return [self._plan_field(field, at, self._block.get(name)) for field, name, at in columns]

    def _plan_field(self, field: str, at: int, encoding: Encoding | None) -> Reading:
        """How a field is read; no value fits a column of another kind than the block says."""
        layout, column = self._layout, self._layout.columns[at]
        if encoding is None:
            encoding = assume_encoding(column.type, layout.source, layout.known.decimal_texts)
        elif not column.declared and wider_type(column.type, encoding.type) is None:
            return Reading(field, at, refuse)
        else:
            encoding = in_mode(encoding, column.type, layout.source)
        bulk = bulk_converter(encoding, column.type, layout.types[at])
        if self._native:
            convert = avro_converter_of(encoding, column.type)
        else:
            convert = converter_of(encoding, column.type, self._sourced)
        if not column.declared and (encoding.type, column.type) == _GROWN:
            convert, bulk = round_to_single(convert), None
        declared = layout.table.columns.get(column.name)
        if declared is not None:
            convert = handle_infinity(convert, declared.infinity)
        return Reading(field, at, convert, bulk)

    def _is_new_block(self) -> bool:
        layout = self._layout
        if layout.grows and any(map(layout.is_new, self._block)):
            return True
        widens = any(self._is_wider(field, one.type) for field, one in self._block.items())
        return widens or not layout.are_announced(self._block)

    def _is_wider(self, field: str, block_type: T.DataType) -> bool:
        """Whether the block's type for a field makes its column's type another one."""
        column = self._layout.column_of(field)
        if column is None or column.declared or field.startswith("_"):
            return False
        if column.provisional:
            return column.type != block_type
        grows = self._layout.table.schema_changes.widen == "apply"
        return grows and wider_type(column.type, block_type) not in (None, column.type)


def convert_row(readings: Iterable[Reading], row: Row, width: int) -> tuple[Values, Misfits]:
    """The values of a row by the place of their column, of which there are `width`; misfits too."""
    values: Values = [None] * width
    misfits: Misfits = {}
    for field, at, convert, _ in readings:
        value = row[field]
        if value is not None:
            try:
                values[at] = convert(value)
            except Misfit:
                misfits[at] = value
    return values, misfits


def _origin_converter(origin: str, type: T.DataType) -> Converter:
    unit = _UNITS.get(origin.removeprefix(OF_SOURCE))
    is_moment = isinstance(type, T.TimestampType | T.TimestampNTZType | T.DateType)
    kind: Kind = "timestamp" if unit is not None and is_moment else "plain"
    return converter_of(Encoding(kind, type, unit=unit or "us"), type)


def event_type(row: type[Any], old: type[Any], is_bare: bool) -> type[Any]:
    """The struct of a record's envelope; a bare one has no members of the wrapper around it."""
    types = {
        "op": object,
        "after": row | None,
        "before": old | None,
        "source": SourceBlock | None,
        "transaction": Transaction | None,
    }
    wrapper = {"schema": None, "payload": None} if is_bare else {}
    fields = [(name, type, None) for name, type in (types | wrapper).items()]
    return msgspec.defstruct("Event", fields, gc=False)
