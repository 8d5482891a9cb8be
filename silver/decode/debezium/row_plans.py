"""How rows are read: which field is which column, and by which converter.

Rows of a source have few shapes. What the schema block and the names of a row's fields tell is
decided once for all rows of that shape.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.avro.values import avro_converter_of
from silver.decode.columns import (
    Column,
    Columns,
    adds_columns,
    is_published,
    is_wanted,
    room,
)
from silver.decode.debezium.events.envelope import Row
from silver.decode.debezium.events.placeholders import can_be_placeholder
from silver.decode.types import wider
from silver.decode.values.converters import bounded, converter_of, refuse
from silver.decode.values.encodings import Encoding, assumed, in_mode
from silver.decode.values.numbers import Converter

_MOST_PLANS = 1_024

Reading = tuple[str, int, Converter]
"""A field, the place of its column, and what converts its values."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows with certain fields are read.

    Attributes:
        readings: the fields that are columns; of several that are one column, the best name last.
        keys: those of them that are keys.
        large: fields whose value the source can leave out, with their columns' names.
        unknown: fields without a column that could have one.
        unfit: whether some field can have no column beside the row's others.
        unlike: whether the fields are not those that the source announced.
        odd: whether any of the last three says something.
    """

    readings: tuple[Reading, ...]
    keys: tuple[Reading, ...]
    large: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]
    unfit: bool
    unlike: bool
    odd: bool


class TableLayout:
    """What a table and its columns tell of all its rows.

    Attributes:
        places: where each column stands, by its name in lower case.
        keys: the places of the keys.
        taken: the places of columns that are taken from other parts of a record than its row.
        grows: whether a new field could become a column.
    """

    def __init__(self, table: Table, columns: Columns) -> None:
        self.table = table
        self.columns = columns
        self.source = table.feeds[0]
        self.places = {column.name.lower(): at for at, column in enumerate(columns.columns)}
        self.keys = [self.places[name.lower()] for name in table.keys]
        taken = {name for name, column in table.columns.items() if column.origin is not None}
        self.taken = {at for at, column in enumerate(columns.columns) if column.name in taken}
        self.room = room(self.places)
        self.adds = adds_columns(table)
        self.grows = not columns.settled and self.adds and len(self.places) < self.room

    def column_of(self, field: str) -> Column | None:
        """The column that a field is, if it is one."""
        place = self.places.get(field.lower())
        return None if place is None else self.columns.columns[place]

    def is_new(self, field: str) -> bool:
        """Whether a field has no column but could have one."""
        return self.adds and self.column_of(field) is None and is_wanted(self.table, field)

    def are_announced(self, fields: Mapping[str, Encoding | None]) -> bool:
        """Whether the source announced exactly these fields, with these types where they tell."""
        announced = self.columns.announced
        if announced is None or self.columns.settled or not fields:
            return True
        shown = {}
        for field, encoding in fields.items():
            column = self.column_of(field)
            if column is not None or not self.adds or self.grows:
                name = field if column is None else column.name
                shown[name] = encoding and encoding.type.simpleString()
        before = {n: announced[n] for n in announced if self._counts(n)}
        shown = {n: type for n, type in shown.items() if self._counts(n)}
        if shown.keys() != before.keys():
            return False
        return all(None in (type, before[n]) or type == before[n] for n, type in shown.items())

    def _counts(self, name: str) -> bool:
        return not name.startswith("_") and is_published(self.table, name)


class RowReader:
    """Plans for rows that one schema block describes, or none.

    The rows of a `loose` reader are documents, each of which has the fields it has.

    Attributes:
        unlike: whether the block shows columns or types that the table does not know.
        width: how many columns the table has.
        native: whether values are Avro's, and not JSON's.
    """

    def __init__(
        self,
        layout: TableLayout,
        block: Mapping[str, Encoding] | None,
        sourced: bool,
        loose: bool = False,
    ) -> None:
        self.loose = loose
        self.native = False
        self.layout = layout
        self.width = len(layout.columns.columns)
        self.block = block or {}
        self.sourced = sourced
        self.unlike = not layout.columns.settled and self._is_new_block()
        self._plans: dict[tuple[str, ...], RowPlan] = {}

    def plan(self, row: Mapping[str, object]) -> RowPlan:
        """How a row with these fields is read."""
        names = tuple(row)
        plan = self._plans.get(names)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[names] = self._planned(names)
        return plan

    def encoding(self, place: int, field: str) -> Encoding | None:
        """How the values of a field are written; None where no value fits the column there."""
        layout, encoding = self.layout, self.block.get(field)
        column = layout.columns.columns[place]
        if encoding is None:
            return assumed(column.type, layout.source, layout.columns.decimal_texts)
        if not column.declared and wider(column.type, encoding.type) is None:
            return None
        return in_mode(encoding, column.type, layout.source)

    def converter(self, place: int, field: str) -> Converter:
        """What converts the values of a field that is the column at this place."""
        column, encoding = self.layout.columns.columns[place], self.encoding(place, field)
        if encoding is None:
            return refuse
        if self.native:
            convert = avro_converter_of(encoding, column.type)
        else:
            convert = converter_of(encoding, column.type, self.sourced)
        declared = self.layout.table.columns.get(column.name)
        return convert if declared is None else bounded(convert, declared.infinity)

    def _planned(self, names: tuple[str, ...]) -> RowPlan:
        layout = self.layout
        readings = tuple(self._readings(names))
        columns = layout.columns.columns
        held = [at for _, at, _ in readings if is_published(layout.table, columns[at].name)]
        unknown = tuple(name for name in names if layout.is_new(name))
        unfit = len(set(held)) < len(held)
        exact = not self.block and not self.loose
        unlike = exact and not layout.are_announced(dict.fromkeys(names))
        return RowPlan(
            readings=readings,
            keys=tuple(reading for reading in readings if reading[1] in layout.keys),
            large=tuple((f, columns[at].name) for f, at, _ in readings if self._is_large(at)),
            unknown=unknown,
            unfit=unfit,
            unlike=unlike,
            odd=bool(unknown) or unfit or unlike,
        )

    def _readings(self, names: Iterable[str]) -> list[Reading]:
        places = self.layout.places
        known = [
            (n, places[n.lower()]) for n in names if not n.startswith("_") and n.lower() in places
        ]
        known = [(name, at) for name, at in known if at not in self.layout.taken]
        columns = self.layout.columns.columns
        known.sort(key=lambda one: one[0] == columns[one[1]].name)
        return [(name, at, self.converter(at, name)) for name, at in known]

    def _is_large(self, place: int) -> bool:
        keys, type = self.layout.keys, self.layout.columns.columns[place].type
        return bool(keys) and place not in keys and can_be_placeholder(type)

    def _is_new_block(self) -> bool:
        layout = self.layout
        if any(layout.is_new(field) for field in self.block) and layout.grows:
            return True
        widens = any(self._widens(field, told.type) for field, told in self.block.items())
        return widens or not layout.are_announced(self.block)

    def _widens(self, field: str, told: T.DataType) -> bool:
        """Whether the block's type for a field makes its column's type another one."""
        column = self.layout.column_of(field)
        if column is None or column.declared or field.startswith("_"):
            return False
        if column.provisional:
            return column.type != told
        grows = self.layout.table.schema_changes.widen == "apply"
        return grows and wider(column.type, told) not in (None, column.type)


def keys_in(row: Row | None, reader: RowReader) -> Iterator[tuple[int, object, Converter]]:
    """The keys in a row that are not null: place, value and converter."""
    if row:
        for field, at, convert in reversed(reader.plan(row).keys):
            if row[field] is not None:
                yield at, row[field], convert
