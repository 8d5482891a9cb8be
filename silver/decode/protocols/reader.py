"""Typed values of rows by columns, columns that the rows lack, and what in them does not fit."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from bronze.contract import NOT_TEXT
from lakehouse.config.formats import ORIGIN, is_whole
from lakehouse.config.table import Table
from silver.decode.change import BAD_VALUE, INCOMPATIBLE_SCHEMA, NO_KEY
from silver.decode.columns import (
    UNFIT,
    Columns,
    adds_columns,
    column_limit,
    declared_types,
    is_published,
    required_columns,
)
from silver.decode.expressions.names import FAULT, MEMBER, OF_RECORD, grouped_columns, members_read
from silver.decode.protocols.converters import MakeReader, hexless_reader, of_csv, plain_reader
from silver.decode.protocols.objects import Fault
from silver.decode.protocols.slices import OpenedSlice, RowGroup
from silver.decode.types import Misfit, arrow_type, carrier_type
from silver.decode.values.bulk import REFUSALS, convert_column
from silver.decode.values.converters import LONGEST_SHOWN, handle_infinity, misfit_message
from silver.decode.values.inference import UndeclaredFields

_TEXTS = (T.StringType, T.CharType, T.VarcharType)
_WHOLE = ": a whole record of Kafka, expected its value alone (kcat without -J)"
_MOST_SHOWN, _LONGEST_NAME = 8, 40

Members = Mapping[str, Sequence[Any]]
Carried = Sequence[Collection[str] | None] | None


class FlatRows(NamedTuple):
    """The rows of a slice, or of a group; all by the indices of their records in the slice.

    Attributes:
        columns: the values of each column; null for a null, an absent value and a misfit, and for
            all parts of a key with a fault where null is a value of keys.
        absent: columns that an upsert of a row does not carry; None when it carries all.
        key_faults: why rows cannot be an upsert or a delete.
        value_faults: why rows cannot be an upsert.
        mismatched: rows that show columns or types that `Columns` does not know.
    """

    columns: dict[str, pa.Array]
    absent: Sequence[list[str] | None]
    key_faults: dict[int, Fault]
    value_faults: dict[int, Fault]
    mismatched: set[int]

    def absent_where(self, carries: Sequence[object]) -> dict[str, pa.Array]:
        """The field `_absent` of changes, null where `carries` is false."""
        if not any(self.absent):
            return {}
        kept = [one if given else None for one, given in zip(self.absent, carries, strict=True)]
        return {"_absent": pa.array(kept, pa.list_(pa.string()))}


def read_groups(opened: OpenedSlice, read: Callable[[RowGroup], FlatRows]) -> FlatRows:
    """The rows of all groups in the order of their records, nulls for records that are no rows."""
    parts = [*map(read, opened.groups)]
    indices = [*chain.from_iterable(group.indices for group in opened.groups)]
    if len(parts) == 1 and indices == [*range(opened.size)]:
        return parts[0]
    order: list[int | None] = [None] * opened.size
    for nth, at in enumerate(indices):
        order[at] = nth
    listed = [*chain.from_iterable(part.absent for part in parts)]
    taken, names = pa.array(order, pa.int64()), parts[0].columns if parts else ()
    joined = FlatRows({}, [None if nth is None else listed[nth] for nth in order], {}, {}, set())
    for name in names:
        joined.columns[name] = pa.concat_arrays([part.columns[name] for part in parts]).take(taken)
    for part in parts:
        joined.key_faults.update(part.key_faults)
        joined.value_faults.update(part.value_faults)
        joined.mismatched.update(part.mismatched)
    return joined


class FlatRowReader:
    """Reads the rows of one table.

    `protocol` names members that are read by the format itself and are no columns; `make` gives a
    column's reader, which is `plain_reader` unless rows are encoded.
    """

    def __init__(
        self,
        table: Table,
        columns: Columns,
        protocol: Collection[str] = (),
        make: MakeReader | None = None,
    ) -> None:
        self._columns = [column for column in columns.columns if column.name != FAULT]
        self._settled = columns.settled
        written = table.feeds[0].file_format
        self._tells_bytes = written == "parquet"
        made = make or (plain_reader if self._tells_bytes else hexless_reader)
        made = of_csv(made) if written == "csv" else made
        infinity = {name: column.infinity for name, column in table.columns.items()}
        self._names = [column.name.removeprefix(MEMBER) for column in self._columns]
        self._types = [arrow_type(carrier_type(column.type)) for column in self._columns]
        self._readers = [made(column, self._settled) for column in self._columns]
        self._converters = [
            handle_infinity(reader.convert, infinity.get(column.name))
            for reader, column in zip(self._readers, self._columns, strict=True)
        ]
        self._keys = [(at, name) for at, name in enumerate(columns.names) if name in table.keys]
        self._table, self._nullable_keys = table, table.nullable_keys
        self._unknown = _UnknownMembers(table, columns, {*self._names, *protocol, NOT_TEXT})
        self._undeclared = UndeclaredFields(declared_types(table), columns.left_out)
        self._carried = _carried_columns(table, columns)
        self._complete = frozenset(name for _, name, _ in self._carried)
        required = required_columns(table) - set(grouped_columns(table))
        self._required = [(at, name) for at, name, _ in self._carried if name in required]

    def read(self, group: RowGroup, carried: Carried = None) -> FlatRows:
        """Types the members of rows; `carried` are columns that each row says it carries, or None.

        A row with None in `carried` carries all that it has.
        """
        arrays, misfits = self._convert(group)
        mismatched, faults = self._unknown.judge(group)
        if not self._settled:
            mismatched |= self._pass_provisional(group, misfits) | self._find_undeclared(group)
        lacked = [] if group.kind.complete else self._list_lacked(group.members)
        absent = self._find_absent(len(group.indices), lacked, arrays, carried)
        for nth, places in misfits.items():
            for at in places:
                if self._names[at] not in self._table.keys:
                    faults.setdefault(group.indices[nth], self._judge_misfit(group, nth, at))
                    break
        for at, name in self._required:
            message = f"column {name}: found null, expected a value (nullable: false)"
            for nth in _find_nulls(arrays[at]):
                if name not in (absent[nth] or ()):
                    faults.setdefault(group.indices[nth], Fault(BAD_VALUE, message))
        key_faults = self._find_key_faults(group, arrays)
        if key_faults and self._nullable_keys:
            misread = {nth for nth, at in enumerate(group.indices) if at in key_faults}
            for at, _ in self._keys:
                arrays[at] = _set_null(arrays[at], misread)
        columns = {c.name: array for c, array in zip(self._columns, arrays, strict=True)}
        return FlatRows(columns, absent, key_faults, faults, mismatched)

    def _convert(self, group: RowGroup) -> tuple[list[pa.Array], dict[int, list[int]]]:
        """The values of the columns, and in each row the columns that do not fit."""
        arrays: list[pa.Array] = []
        misfits: dict[int, list[int]] = {}
        for at, (name, convert) in enumerate(zip(self._names, self._converters, strict=True)):
            if name in group.members:
                given, bulk = group.members[name], self._readers[at].bulk
                array, places = convert_column(given, convert, bulk, self._types[at])
                for nth in places:
                    misfits.setdefault(nth, []).append(at)
            else:
                array = pa.nulls(len(group.indices), self._types[at])
            arrays.append(array)
        for at in range(len(arrays) if self._tells_bytes and NOT_TEXT in group.members else 0):
            rows = {nth for nth in range(len(group.indices)) if self._is_no_text(group, nth, at)}
            arrays[at] = _set_null(arrays[at], rows)
            for nth in rows:
                misfits.setdefault(nth, []).append(at)
        return arrays, misfits

    def _is_no_text(self, group: RowGroup, nth: int, at: int) -> bool:
        """Whether a row of a Parquet file has bytes that are no text in a column of texts."""
        names = group.members[NOT_TEXT][nth] if NOT_TEXT in group.members else None
        if not (self._tells_bytes and isinstance(names, list)):
            return False
        named = {str(name).lower() for name in names}
        return isinstance(self._columns[at].type, _TEXTS) and self._names[at].lower() in named

    def _pass_provisional(self, group: RowGroup, misfits: dict[int, list[int]]) -> set[int]:
        """Leaves out misfits of columns whose type may still change; gives their rows."""
        passed = set()
        for nth, places in misfits.items():
            kept = [
                at
                for at in places
                if not self._columns[at].provisional or self._refused_text(group, nth, at)
            ]
            if len(kept) < len(places):
                passed.add(group.indices[nth])
                misfits[nth] = kept
        return passed

    def _find_undeclared(self, group: RowGroup) -> set[int]:
        """The rows with new members in structs that are declared without them."""
        if not self._undeclared.has_structs:
            return set()
        rows = zip(*group.members.values(), strict=True)
        given = zip(group.indices, rows, strict=False)
        has_new = self._undeclared.has_new
        return {at for at, row in given if has_new(dict(zip(group.members, row, strict=True)))}

    def _list_lacked(self, members: Members) -> list[str]:
        if self._complete <= members.keys():
            return []
        return [name for _, name, _ in self._carried if name not in members]

    def _find_absent(
        self, count: int, lacked: list[str], arrays: Sequence[pa.Array], carried: Carried
    ) -> Sequence[list[str] | None]:
        """The columns that each row does not carry; None when it carries all."""
        ignored = {
            name: {*_find_nulls(arrays[at])} for at, name, ignores in self._carried if ignores
        }
        if carried is None and not any(ignored.values()):
            return [lacked or None] * count
        listed: list[list[str] | None] = []
        for nth in range(count):
            named = None if carried is None else carried[nth]
            absent = [
                name
                for _, name, _ in self._carried
                if name in lacked
                or nth in ignored.get(name, ())
                or (named is not None and name not in named)
            ]
            listed.append(absent or None)
        return listed

    def _find_key_faults(self, group: RowGroup, arrays: Sequence[pa.Array]) -> dict[int, Fault]:
        faults: dict[int, Fault] = {}
        for at, name in self._keys:
            values = group.members.get(name)
            for nth in _find_nulls(arrays[at]):
                index = group.indices[nth]
                if index in faults:
                    continue
                if values is not None and values[nth] is not None:
                    faults[index] = self._judge_misfit(group, nth, at)._replace(reason=BAD_VALUE)
                elif values is None or name not in self._nullable_keys:
                    shown = "" if values is not None else _list_members(group.members, nth)
                    message = f"key column {name}: missing or null{shown}"
                    faults[index] = Fault(NO_KEY, message)
        return faults

    def _judge_misfit(self, group: RowGroup, nth: int, at: int) -> Fault:
        """The fault of a row with a value that does not fit the column `at`."""
        column, name = self._columns[at], self._names[at]
        if self._is_no_text(group, nth, at):
            message = "found bytes that are not UTF-8, expected text, or type binary"
            return Fault(BAD_VALUE, f"column {name}: {message}")
        hidden = self._table.is_sensitive(name)
        if (text := self._refused_text(group, nth, at)) is not None:
            shown = "a value that is not shown" if hidden else text
            expected = carrier_type(column.type).simpleString()
            return Fault(BAD_VALUE, f"column {name}: found {shown}, expected {expected}")
        learned = not column.declared and not column.provisional
        reason = INCOMPATIBLE_SCHEMA if learned else BAD_VALUE
        shown, value = name.removeprefix(OF_RECORD), group.members[name][nth]
        message = misfit_message(shown, value, column.type, hidden, self._table.table)
        return Fault(reason, message)

    def _refused_text(self, group: RowGroup, nth: int, at: int) -> str | None:
        """A value that fits its column but not Arrow, as half a surrogate pair; None for others."""
        try:
            value = self._converters[at](group.members[self._names[at]][nth])
        except Misfit:
            return None
        try:
            pa.array([value], self._types[at])
        except REFUSALS:
            return repr(str(value)[:LONGEST_SHOWN])
        return None


class _UnknownMembers:
    """Judges the members of a table's rows that no column holds; `needless` need no look."""

    def __init__(self, table: Table, columns: Columns, needless: set[str]) -> None:
        self._table, self._needless = table, needless
        self._settled, self._announced = columns.settled, columns.announced
        self._members_read, self._adds = frozenset(members_read(table)), adds_columns(table)
        present = [name for name in columns.names if not name.startswith("_")]
        self._taken = {name.lower() for name in present} | {""}
        self._room = column_limit([c.name for c in columns.columns if not c.provisional])
        self._is_full = len(present) >= self._room

    def judge(self, group: RowGroup) -> tuple[set[int], dict[int, Fault]]:
        """The rows that are mismatched by their members, and the faults of rows."""
        mismatched: set[int] = set()
        faults: dict[int, Fault] = {}
        unknown = group.members.keys() - self._needless
        for name in sorted(unknown):
            is_new, is_refused, with_null = self._judge_member(name, len(group.members))
            if not is_new and not is_refused:
                continue
            given = zip(group.indices, group.members[name], strict=True)
            shown = [at for at, value in given if with_null or value is not None]
            if is_new and not self._settled:
                mismatched.update(shown)
            if is_refused:
                message = f"found {name[:_LONGEST_NAME]!r}, which can be no column: {UNFIT}"
                for at in shown:
                    faults.setdefault(at, Fault(INCOMPATIBLE_SCHEMA, message))
        return mismatched, faults

    def _judge_member(self, name: str, count: int) -> tuple[bool, bool, bool]:
        """Whether a member, one of so many, is new; is refused; and also where it is null."""
        if name.startswith("_") or not is_published(self._table, name):
            return name in self._members_read, False, False
        if not self._adds:
            return self._announced is not None and name not in self._announced, False, True
        fits = not (self._is_full or name.lower() in self._taken or count > self._room)
        return fits, self._settled or not fits, False


def _carried_columns(table: Table, columns: Columns) -> list[tuple[int, str, bool]]:
    """Columns that a row may leave out: index, name, and whether a null leaves the column out."""
    ignored = table.ignore_null_updates
    excluded = {*table.keys, table.columns_to_update}
    return [
        (at, name, ignored if isinstance(ignored, bool) else name in ignored)
        for at, name in enumerate(columns.names)
        if name not in excluded and not name.startswith("_") and is_published(table, name)
    ]


def _find_nulls(values: pa.Array) -> list[int]:
    nulls: list[int] = pc.indices_nonzero(values.is_null()).to_pylist() if values.null_count else []
    return nulls


def _set_null(values: pa.Array, rows: set[int]) -> pa.Array:
    """The values, null in these rows."""
    kept = [None if nth in rows else nth for nth in range(len(values))]
    return values.take(pa.array(kept, pa.int64()))


def _list_members(members: Members, nth: int) -> str:
    """The names of a row's members, for a person who looks for another one."""
    names = [name[:_LONGEST_NAME] for name in members if not name.startswith(OF_RECORD)]
    if not names:
        return "; the record has no row" if members else ""
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    has_origin = {*ORIGIN} <= members.keys()
    whole = has_origin and is_whole({name: values[nth] for name, values in members.items()})
    shown = ", ".join(names[:_MOST_SHOWN])
    return f"; the row has {shown}{more}{_WHOLE if whole else ''}"
