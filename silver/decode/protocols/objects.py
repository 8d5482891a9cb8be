"""Rows as JSON objects: typed values, columns they lack, and what in them does not fit."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import types as T

from bronze.contract import NOT_TEXT, avro_schema_id
from lakehouse.config.formats import ORIGIN, is_whole
from lakehouse.config.table import Table
from silver.decode.avro.schemas import UNDECLARED_AVRO
from silver.decode.change import BAD_VALUE, INCOMPATIBLE_SCHEMA, NO_KEY, NOT_CSV, NOT_JSON, Record
from silver.decode.columns import (
    MOST_COLUMNS,
    UNFIT,
    Columns,
    DecodedColumn,
    adds_columns,
    column_limit,
    declared_types,
    is_published,
    required_columns,
)
from silver.decode.expressions.names import FAULT, MEMBER, grouped_columns, members_read
from silver.decode.protocols.converters import hexless_converter, of_csv, plain_converter
from silver.decode.types import Misfit
from silver.decode.values.converters import handle_infinity, misfit_message
from silver.decode.values.inference import UndeclaredFields
from silver.decode.values.json_values import NotJson, parse_json
from silver.decode.values.numbers import Converter
from silver.decode.wrapped import other_form

_MOST_NAMES = 4 * MOST_COLUMNS
_OTHERS = {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}
_TEXTS = (T.StringType, T.CharType, T.VarcharType)
_WHOLE = ": a whole record of Kafka, expected its value alone (kcat without -J)"
_MOST_SHOWN, _LONGEST_NAME, _LONGEST_SHOWN = 8, 40, 100


class Fault(NamedTuple):
    """A dead letter's reason and message."""

    reason: str
    message: str


@dataclass(slots=True)
class Row:
    """One row of a table.

    Attributes:
        values: one value per column of `Columns`; None for a null, an absent value and a misfit,
            and for all parts of a key with a fault where null is a value of keys.
        absent: columns that an upsert of this row does not carry; None when it carries all.
        key_fault: why the row cannot be an upsert or a delete.
        value_fault: why the row cannot be an upsert.
        mismatched: whether the row shows columns or types that `Columns` does not know.
    """

    values: list[object]
    absent: list[str] | None
    key_fault: Fault | None
    value_fault: Fault | None
    mismatched: bool


class RowNames(NamedTuple):
    """What the names of a row's members say of it.

    Attributes:
        absent: the columns that the row does not carry; None when it carries all.
        needed: members that must have a value.
        unknown: members that can be no column of the table as it is, and must have none.
    """

    absent: list[str] | None
    needed: Collection[str]
    unknown: Collection[str]


def row_object(raw: bytes) -> dict[str, object] | None:
    """The JSON object that a row is; None for any other text."""
    try:
        value = parse_json(raw)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None


def broken_row(raw: bytes, table: Table) -> Fault:
    """Why a text is no row of the table; a CSV row that fits its header arrives as an object."""
    if avro_schema_id(raw):
        return Fault(NOT_JSON, UNDECLARED_AVRO)
    if table.feeds[0].file_format != "csv":
        return Fault(NOT_JSON, other_form(raw) or f"the row is no JSON object: {_no_object(raw)}")
    try:
        text = raw.decode()
    except UnicodeError:
        shown = raw[:_LONGEST_SHOWN].decode("utf-8", "replace")
        expected = "expected UTF-8, or source.csv.encoding to name the encoding"
        return Fault(NOT_CSV, f"the CSV row is not in UTF-8: found {shown!r}, {expected}")
    fits = "does not fit the header of its file, is the header again"
    if not table.feeds[0].csv.header:
        fits = "does not have one field for each of `columns`"
    fault = f"{fits}, or has a quote that is not escaped or not closed"
    return Fault(NOT_CSV, f"the CSV row {fault}: found {text[:_LONGEST_SHOWN]!r}")


def _no_object(raw: bytes) -> str:
    """Why a text is no JSON object."""
    try:
        return f"found {_OTHERS.get(type(parse_json(raw)), 'a number')}"
    except NotJson as error:
        return str(error)[:_LONGEST_SHOWN]


def time_of(record: Record) -> int:
    """The time of a change that has none of its own: its record's, else that of its arrival."""
    return record.arrived_at if record.timestamp is None else record.timestamp


class FlatRowReader:
    """Reads the rows of one table.

    `protocol` names members that are read by the format itself and are no columns; `make` gives a
    column's converter, which is `plain_converter` unless rows are encoded.
    """

    def __init__(
        self,
        table: Table,
        columns: Columns,
        protocol: Collection[str] = (),
        make: Callable[[DecodedColumn, bool], Converter] | None = None,
    ) -> None:
        self._columns = columns.columns
        self._settled = columns.settled
        written = table.feeds[0].file_format
        self.reads_csv, self._tells_bytes = written == "csv", written == "parquet"
        self.has_encoded_decimals = make is not None
        made = make or (plain_converter if self._tells_bytes else hexless_converter)
        made = of_csv(made) if self.reads_csv else made
        infinity = {name: column.infinity for name, column in table.columns.items()}
        self.readers = [
            (
                c.name.removeprefix(MEMBER),
                handle_infinity(made(c, self._settled), infinity.get(c.name)),
            )
            for c in self._columns
            if c.name != FAULT
        ]
        self._keys = [(at, name) for at, name in enumerate(columns.names) if name in table.keys]
        self._table, self._nullable_keys = table, table.nullable_keys
        self._names = {name for name, _ in self.readers} | {*protocol, NOT_TEXT}
        self._unknown = UnknownMembers(table, columns, self._names)
        self._undeclared = UndeclaredFields(declared_types(table), columns.left_out)
        self._carried = _carried_columns(table, columns)
        self._complete = frozenset(name for _, name, _ in self._carried)
        self._ignores_nulls = any(ignores for _, _, ignores in self._carried)
        required = required_columns(table) - set(grouped_columns(table))
        self._required = [(at, name) for at, name, _ in self._carried if name in required]

    def read(
        self,
        row: Mapping[str, object],
        named: Collection[str] | None = None,
        complete: bool = False,
    ) -> Row:
        """Types the members of a row.

        Args:
            row: the members.
            named: the columns that the row says it carries; None when it carries all it has.
            complete: whether a column that is not there is null, and not absent.
        """
        values, misfits = self._convert_row(row)
        mismatched, unfit = False, None
        if not row.keys() <= self._names:
            mismatched, unfit = self._unknown.judge(row, row.keys() - self._names)
        if not self._settled:
            count = len(misfits)
            misfits = [at for at in misfits if not self._columns[at].provisional]
            mismatched = mismatched or len(misfits) < count or self._undeclared.has_new(row)
        absent = self._find_absent(row, values, named, complete)
        fault = unfit or self._misfit_fault(row, misfits) or self._null_fault(values, absent)
        key_fault = self._key_fault(row, values)
        if key_fault is not None and self._nullable_keys:
            for at, _ in self._keys:
                values[at] = None
        return Row(values, absent, key_fault, fault, mismatched)

    def _convert_row(self, row: Mapping[str, object]) -> tuple[list[object], list[int]]:
        """The values of the columns, and the places of those that do not fit."""
        values: list[object] = []
        misfits: list[int] = []
        for name, convert in self.readers:
            value = row.get(name)
            try:
                values.append(None if value is None else convert(value))
            except Misfit:
                misfits.append(len(values))
                values.append(None)
        if self._tells_bytes and NOT_TEXT in row:
            for at in self._find_bytes(row):
                misfits.append(at)
                values[at] = None
        return values, misfits

    def judge_names(self, names: Collection[str], complete: bool) -> "RowNames | None":
        """What follows from a row's names alone; None where each row is read alone."""
        if self._ignores_nulls or (self._undeclared.has_structs and not self._settled):
            return None
        nulls: dict[str, object] = dict.fromkeys(names)
        absent = self._find_absent(nulls, self.nothing(), None, complete)
        needed = {name for _, name in self._keys}
        needed |= {name for _, name in self._required if name not in (absent or ())}
        if NOT_TEXT in nulls or not needed <= nulls.keys():
            return None
        if any(self._unknown.judge(nulls, nulls.keys() - self._names)):
            return None
        texts = dict.fromkeys(names, "")
        others = texts.keys() - self._names
        unknown = frozenset(name for name in others if any(self._unknown.judge(texts, [name])))
        return RowNames(absent, needed, unknown)

    def nothing(self) -> list[object]:
        """The values of a record from which no row can be read."""
        return [None] * len(self.readers)

    def _find_absent(
        self,
        row: Mapping[str, object],
        values: list[object],
        named: Collection[str] | None,
        complete: bool,
    ) -> list[str] | None:
        if named is None and not self._ignores_nulls and (complete or self._complete <= row.keys()):
            return None
        absent = [
            name
            for at, name, ignores_null in self._carried
            if (not complete and name not in row)
            or (ignores_null and values[at] is None)
            or (named is not None and name not in named)
        ]
        return absent or None

    def _key_fault(self, row: Mapping[str, object], values: list[object]) -> Fault | None:
        for at, name in self._keys:
            if values[at] is None and row.get(name) is not None:
                return Fault(BAD_VALUE, self._describe_misfit(row, at))
            if values[at] is None and not (name in self._nullable_keys and name in row):
                shown = "" if name in row else _list_members(row)
                return Fault(NO_KEY, f"key column {name}: missing or null{shown}")
        return None

    def _misfit_fault(self, row: Mapping[str, object], misfits: list[int]) -> Fault | None:
        for at in misfits:
            column = self._columns[at]
            if column.name not in self._table.keys:
                learned = not column.declared and not column.provisional
                reason = INCOMPATIBLE_SCHEMA if learned else BAD_VALUE
                return Fault(reason, self._describe_misfit(row, at))
        return None

    def _null_fault(self, values: list[object], absent: list[str] | None) -> Fault | None:
        names = [n for at, n in self._required if values[at] is None and n not in (absent or ())]
        message = "column {}: found null, expected a value (nullable: false)"
        return Fault(BAD_VALUE, message.format(names[0])) if names else None

    def _find_bytes(self, row: Mapping[str, object]) -> list[int]:
        """The places of text columns whose bytes are no text in a row of a Parquet file."""
        names = row[NOT_TEXT]
        named = {str(name).lower() for name in names} if isinstance(names, list) else set()
        return [
            at
            for at, (name, _) in enumerate(self.readers)
            if name.lower() in named and isinstance(self._columns[at].type, _TEXTS)
        ]

    def _describe_misfit(self, row: Mapping[str, object], at: int) -> str:
        name = self.readers[at][0]
        if self._tells_bytes and NOT_TEXT in row and at in self._find_bytes(row):
            return f"column {name}: found bytes that are not UTF-8, expected text, or type binary"
        return misfit_message(
            name, row[name], self._columns[at].type, self._table.is_sensitive(name)
        )


class UnknownMembers:
    """Judges the members of a table's rows that no column holds.

    Names that never matter are added to `ignored`, which has those that need no look.
    """

    def __init__(self, table: Table, columns: Columns, ignored: set[str]) -> None:
        self._table, self._ignored = table, ignored
        self._settled, self._announced = columns.settled, columns.announced
        self._members_read, self._adds = frozenset(members_read(table)), adds_columns(table)
        present = [name for name in columns.names if not name.startswith("_")]
        self._taken = {name.lower() for name in present} | {""}
        self._room = column_limit([c.name for c in columns.columns if not c.provisional])
        self._is_full = len(present) >= self._room

    def judge(self, row: Mapping[str, object], names: Collection[str]) -> tuple[bool, Fault | None]:
        """Whether a row is mismatched by its members of these names, and their fault."""
        judged = {name: self._judge_member(row, name) for name in names}
        mismatched = not self._settled and any(new for new, _ in judged.values())
        unfit = [name for name, (_, is_unfit) in judged.items() if is_unfit]
        if not unfit:
            return mismatched, None
        message = f"found {min(unfit)[:_LONGEST_NAME]!r}, which can be no column: {UNFIT}"
        return mismatched, Fault(INCOMPATIBLE_SCHEMA, message)

    def _judge_member(self, row: Mapping[str, object], name: str) -> tuple[bool, bool]:
        """Whether a member is news, and whether it can be no column."""
        if name.startswith("_") or not is_published(self._table, name):
            if name in self._members_read:
                return row[name] is not None, False
            if len(self._ignored) < _MOST_NAMES:
                self._ignored.add(name)
            return False, False
        if not self._adds:
            return self._announced is not None and name not in self._announced, False
        if row[name] is None:
            return False, False
        fits = not (self._is_full or name.lower() in self._taken or len(row) > self._room)
        return fits, self._settled or not fits


def _carried_columns(table: Table, columns: Columns) -> list[tuple[int, str, bool]]:
    """Columns that a row may leave out: place, name, and whether a null leaves the column out."""
    ignored = table.ignore_null_updates
    excluded = {*table.keys, table.columns_to_update}
    return [
        (at, name, ignored if isinstance(ignored, bool) else name in ignored)
        for at, name in enumerate(columns.names)
        if name not in excluded and not name.startswith("_") and is_published(table, name)
    ]


def _list_members(row: Mapping[str, object]) -> str:
    """The names of a row's members, for a person who looks for another one."""
    names = [name[:_LONGEST_NAME] for name in row]
    if not names:
        return ""
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    whole = _WHOLE if is_whole(row) and {*ORIGIN} <= row.keys() else ""
    return f"; the row has {', '.join(names[:_MOST_SHOWN])}{more}{whole}"
