"""Finds the columns of flat rows that nobody declared, their types, and the order they came in."""

from collections.abc import Iterable, Mapping
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
from silver.decode.expressions.names import MEMBER, group_orders, members_read, row_orders
from silver.decode.protocols.file_rows import FileRows
from silver.decode.protocols.slices import FlatRow
from silver.decode.values.inference import (
    MOST_LEFT_OUT,
    SeenValues,
    UndeclaredFields,
    infer_order,
    infer_type,
)

_READ_BY_FORMATS = ("__", "_CHANGE_", NOT_TEXT)
_MOST_NAMES = 4 * MOST_COLUMNS


@dataclass(slots=True)
class SeenName:
    """The kinds of values that rows have under a name, and the first record that has one."""

    values: SeenValues = field(default_factory=SeenValues)
    arrival: str = ""
    position: str = ""

    def keep_earlier(self, arrival: str, position: str) -> None:
        """Keeps the earlier of two records."""
        if not self.arrival or arrival < self.arrival:
            self.arrival, self.position = arrival, position


class FlatDiscovery:
    """Finds the columns of flat rows; a format may say with `row_of` what a record's row is.

    A name whose values are all null is no column yet. A row with more names than a table may have
    columns is ignored.

    Attributes:
        ignores_case: whether names that differ in case only are one.
        left_out: the fields in no column, see `Columns`.
        seen: what rows have under each name that may become a column.
    """

    ignores_case = True

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table = table
        self._columns = columns
        self._rows = FileRows(table, columns)
        self._typed = frozenset(c.name for c in columns.columns if not c.provisional)
        self._expression_members = members_read(table)
        orders = (*row_orders(table), *group_orders(table))
        self._orders = {MEMBER + name.strip("`") for name in orders}
        self._limit = column_limit(self._typed)
        self._undeclared = UndeclaredFields(declared_types(table))
        self._skipped: dict[str, bool] = {}
        self.left_out = set(columns.left_out)
        self.seen: dict[str, SeenName] = {}

    def row_of(self, record: Record) -> Mapping[str, object] | None:
        """The members of the record's row, keys included; None where there is no row."""
        row = self._rows.open_record(record)
        return row.members if isinstance(row, FlatRow) else None

    def look(self, record: Record, position: str) -> None:
        """Adds the names and the kinds of values of the record's rows."""
        for row in self.rows_of(record):
            if len(row) <= self._limit:
                self._look_at(row, record, position)

    def rows_of(self, record: Record) -> Iterable[Mapping[str, object]]:
        """The members of the record's rows."""
        row = self.row_of(record)
        return () if row is None else (row,)

    def _look_at(self, row: Mapping[str, object], record: Record, position: str) -> None:
        for name, value in row.items():
            if value is None or name in self._typed or self._skips(name):
                continue
            seen = self.seen.get(name)
            if seen is None:
                seen = self.seen[name] = SeenName()
            seen.keep_earlier(record.arrival, position)
            seen.values.add(value)
        if len(self.left_out) < MOST_LEFT_OUT:
            self.left_out |= self._undeclared.find(row)
        if len(self.seen) > _MOST_NAMES:
            self._drop_latest()

    def merge(self, other: "FlatDiscovery") -> None:
        """Adds what another discovery of the same table has seen."""
        for name, theirs in other.seen.items():
            seen = self.seen.setdefault(name, SeenName())
            seen.keep_earlier(theirs.arrival, theirs.position)
            seen.values.merge(theirs.values)
        self.left_out |= other.left_out
        self._drop_latest()

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns and the shapes of its rows; see `silver.decode.columns.Discovery`."""
        if self.ignores_case:
            self._fold_names()
        present = [self._settle_column(column) for column in self._columns.columns]
        known = {*self._expression_members, *self._columns.names}
        new = [name for name in self._sort_names() if name not in known]
        usable, _ = settle_names(new if adds_columns(self._table) else [], self._columns.names)
        own = [*present, *self._infer_columns(sorted(usable))]
        columns = (*own, *self._infer_columns(self._expression_members, MEMBER))
        left_out = tuple(sorted(self.left_out)[:MOST_LEFT_OUT])
        settled = replace(self._columns, columns=columns, settled=whole, left_out=left_out)
        return settled, self._list_shapes(own, usable, new)

    def _fold_names(self) -> None:
        """Unites names that differ in case only under the spelling that came first."""
        spellings: dict[str, str] = {}
        for name in self._sort_names():
            first = spellings.setdefault(name.lower(), name)
            if first != name:
                self.seen[first].values.merge(self.seen.pop(name).values)

    def _skips(self, name: str) -> bool:
        """Whether a name can be no column and is in no expression; `_…` is noted as left out."""
        skipped = self._skipped.get(name)
        if skipped is None:
            is_own = name.startswith("_") or name in ("", self._table.columns_to_update)
            is_column = not is_own and is_published(self._table, name)
            skipped = not is_column and name not in self._expression_members
            is_read = name.startswith(_READ_BY_FORMATS) or self._table.leaves_out(name)
            if skipped and name.startswith("_") and not is_read:
                self.left_out.add(name)
            if len(self._skipped) < _MOST_NAMES:
                self._skipped[name] = skipped
        return skipped

    def _sort_names(self) -> list[str]:
        """The names in the order in which they came."""
        return sorted(self.seen, key=lambda name: (self.seen[name].arrival, name))

    def _drop_latest(self) -> None:
        """Forgets names that came too late to become a column, so that they fill no memory."""
        for name in self._sort_names()[2 * MOST_COLUMNS :]:
            if name not in self._expression_members and name not in self._table.keys:
                del self.seen[name]

    def _settle_column(self, column: DecodedColumn) -> DecodedColumn:
        inferred = self._infer_columns([column.name]) if column.provisional else []
        return inferred[0] if inferred else column

    def _infer_columns(self, names: Iterable[str], prefix: str = "") -> list[DecodedColumn]:
        """The columns of these names; none for a name whose values are all null."""
        seen = {prefix + name: self.seen[name].values for name in names if name in self.seen}
        infer = {name: infer_order if name in self._orders else infer_type for name in seen}
        types = {name: infer[name](values) for name, values in seen.items()}
        return [DecodedColumn(n, t, provisional=True) for n, t in types.items() if t is not None]

    def _list_shapes(
        self, columns: list[DecodedColumn], usable: list[str], new: list[str]
    ) -> list[Shape]:
        """A shape for each new column in order of arrival, and one of all columns.

        The shape of all columns comes last; but first where none of the source's columns is known
        yet, as those that the source begins with.
        """
        types = {c.name: c.type.simpleString() for c in columns}
        names = usable if adds_columns(self._table) else new
        single = [Shape({n: types.get(n)}, False, self.seen[n].position) for n in names]
        first = min(self.seen.values(), key=lambda seen: seen.arrival, default=SeenName())
        own = {name: type for name, type in types.items() if not name.startswith("_")}
        whole = Shape(own, False, first.position)
        if self._columns.announced is None:
            return [whole, *(shape for shape in single if not shape.fields.keys() <= types.keys())]
        return [*single, whole]
