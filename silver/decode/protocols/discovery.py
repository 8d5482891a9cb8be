"""Columns that flat rows carry and nobody declared: names in order of arrival, types, shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bronze.contract import NOT_TEXT
from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import (
    MOST_COLUMNS,
    Columns,
    DecodedColumn,
    Shape,
    adds_columns,
    column_limit,
    declared_types,
    is_published,
    settle_names,
)
from silver.decode.expressions.names import MEMBER, members_read
from silver.decode.protocols.file_rows import FileRows
from silver.decode.values.inference import (
    MOST_LEFT_OUT,
    SeenValues,
    UndeclaredFields,
    infer_type,
)

_OF_FORMATS = ("__", "_CHANGE_", NOT_TEXT)
_MOST_NAMES = 4 * MOST_COLUMNS


@dataclass(slots=True)
class SeenName:
    """A member that rows have: the kinds of its values, and the first record that has one."""

    values: SeenValues = field(default_factory=SeenValues)
    arrival: str = ""
    position: str = ""

    def take_first(self, arrival: str, position: str) -> None:
        """Keeps the earlier of two records."""
        if not self.arrival or arrival < self.arrival:
            self.arrival, self.position = arrival, position


class FlatDiscovery:
    """Finds the columns of flat rows; a format may say with `row_of` what a record's row is.

    Names that differ in case only are one where `folds` says so. A name whose values are all null
    is no column yet. A row with more names than a table has room for shows none.
    """

    folds = True

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table = table
        self._columns = columns
        self._rows = FileRows(table, columns)
        self._typed = frozenset(c.name for c in columns.columns if not c.provisional)
        self._members = members_read(table)
        self._room = column_limit(self._typed)
        self._undeclared = UndeclaredFields(declared_types(table))
        self._skipped: dict[str, bool] = {}
        self.left_out = set(columns.left_out)
        self.seen: dict[str, SeenName] = {}

    def row_of(self, record: Record) -> Mapping[str, object] | None:
        """The members of the record's row, keys included; None where there is no row."""
        return None if record.raw is None else self._rows.read(record)

    def look(self, record: Record, position: str) -> None:
        """Takes in the names and kinds of values of the record's row."""
        row = self.row_of(record)
        if row is None or len(row) > self._room:
            return
        for name, value in row.items():
            if value is None or name in self._typed or self._is_skipped(name):
                continue
            seen = self.seen.get(name)
            if seen is None:
                seen = self.seen[name] = SeenName()
            seen.take_first(record.arrival, position)
            seen.values.add(value)
        if len(self.left_out) < MOST_LEFT_OUT:
            self.left_out |= self._undeclared.find(row)
        if len(self.seen) > _MOST_NAMES:
            self._keep_first()

    def merge(self, other: "FlatDiscovery") -> None:
        """Takes in what another discovery of the same table has seen."""
        for name, theirs in other.seen.items():
            seen = self.seen.setdefault(name, SeenName())
            seen.take_first(theirs.arrival, theirs.position)
            seen.values.merge(theirs.values)
        self.left_out |= other.left_out
        self._keep_first()

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns and the shapes of its rows; see `silver.decode.columns.Discovery`."""
        if self.folds:
            self._fold_names()
        present = [self._settle_column(column) for column in self._columns.columns]
        new = [name for name in self._by_arrival() if self._is_new(name)]
        usable = settle_names(new if adds_columns(self._table) else [], self._columns.names).usable
        inferred = [self._infer_column(name, name) for name in sorted(usable)]
        columns = [*present, *(column for column in inferred if column is not None)]
        extra = [self._infer_column(name, f"{MEMBER}{name}") for name in self._members]
        read = [*columns, *(column for column in extra if column is not None)]
        left_out = tuple(sorted(self.left_out)[:MOST_LEFT_OUT])
        settled = replace(self._columns, columns=tuple(read), settled=whole, left_out=left_out)
        return settled, self._list_shapes(columns, usable, new)

    def _fold_names(self) -> None:
        """Makes names that differ in case only one, spelled as the first that came."""
        spelled: dict[str, str] = {}
        for name in self._by_arrival():
            first = spelled.setdefault(name.lower(), name)
            if first != name:
                self.seen[first].values.merge(self.seen.pop(name).values)

    def _is_skipped(self, name: str) -> bool:
        """Whether a name is neither a column of the table nor read for an expression."""
        skipped = self._skipped.get(name)
        if skipped is None:
            apart = name.startswith("_") or not is_published(self._table, name)
            nameless = name in ("", self._table.columns_to_update)
            skipped = (apart or nameless) and name not in self._members
            if skipped and name.startswith("_") and not name.startswith(_OF_FORMATS):
                self.left_out.add(name)
            if len(self._skipped) < _MOST_NAMES:
                self._skipped[name] = skipped
        return skipped

    def _is_new(self, name: str) -> bool:
        return name not in self._members and name not in self._columns.names

    def _by_arrival(self) -> list[str]:
        return sorted(self.seen, key=lambda name: (self.seen[name].arrival, name))

    def _keep_first(self) -> None:
        """Bounds what rubbish can fill the memory with: names that came too late for any column."""
        for name in self._by_arrival()[2 * MOST_COLUMNS :]:
            if name not in self._members and name not in self._table.keys:
                del self.seen[name]

    def _settle_column(self, column: DecodedColumn) -> DecodedColumn:
        inferred = self._infer_column(column.name, column.name) if column.provisional else None
        return inferred or column

    def _infer_column(self, name: str, column: str) -> DecodedColumn | None:
        seen = self.seen.get(name)
        inferred = infer_type(seen.values) if seen is not None else None
        return None if inferred is None else DecodedColumn(column, inferred, provisional=True)

    def _list_shapes(
        self, columns: list[DecodedColumn], usable: list[str], new: list[str]
    ) -> list[Shape]:
        """The shapes of new columns in order of arrival, and that of all columns.

        Where nothing is known of the source's columns yet, the shape of all columns comes first,
        as those that the source begins with.
        """
        types = {c.name: c.type.simpleString() for c in columns}
        ignored = [] if adds_columns(self._table) else new
        single = [
            Shape({name: types.get(name)}, False, seen.position)
            for name in (*usable, *ignored)
            for seen in [self.seen[name]]
        ]
        everything = self._whole_shape(types)
        if self._columns.announced is None:
            return [everything, *(one for one in single if not one.fields.keys() <= types.keys())]
        return [*single, everything]

    def _whole_shape(self, types: Mapping[str, str]) -> Shape:
        first = min(self.seen.values(), key=lambda seen: seen.arrival, default=SeenName())
        fields = {name: type for name, type in types.items() if not name.startswith("_")}
        return Shape(fields, False, first.position)
