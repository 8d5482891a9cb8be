"""Flat rows of any origin, with an order and operations that the table's YAML spells out.

The orders and conditions are SQL: `silver.decode.expressions.rows` evaluates them over the decoded
columns. The decoder therefore returns every row as an upsert, with extra columns: the members that
the expressions use and the table does not hold, and `FAULT`, which says which operations a faulty
row can still be. A row that leaves columns out changes only the others; `columns_to_update` names a
member that lists the columns that a row carries. That member itself is no column.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import pyarrow as pa
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.contract import NONE, UPSERT
from silver.decode.change import BAD_VALUE, Record
from silver.decode.columns import Columns, DecodedColumn, Shape
from silver.decode.debezium.events.flattened import has_added_members
from silver.decode.expressions.names import FAULT
from silver.decode.protocols.discovery import FlatDiscovery
from silver.decode.protocols.encoded_rows import RowOpener
from silver.decode.protocols.envelopes import EnvelopeRow
from silver.decode.protocols.objects import Fault
from silver.decode.protocols.reader import FlatRowReader, FlatRows, read_groups
from silver.decode.protocols.slices import (
    OpenedSlice,
    RowGroup,
    RowTraits,
    group_rows,
    read_part,
)
from silver.decode.shapes import Parsed
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.converters import misfit_message
from silver.decode.values.encodings import declares_binaries, declares_decimals
from silver.decode.values.json_values import NotJson, parse_json, text_of

_MOST_BLOCKS = 256
_NAMES, _LISTS = T.ArrayType(T.StringType()), (list, str, type(None))
EVERY, OF_KEY, OF_VALUES = "every", "of_key", "of_values"
"""Values of `FAULT`: the row can be no operation; only a truncate; a truncate or a delete."""


def with_fault_column(columns: Columns) -> Columns:
    """The columns with `FAULT` as the last one, which the decoder of rows needs."""
    if FAULT in columns.names:
        return columns
    fault = DecodedColumn(FAULT, T.StringType(), declared=True)
    return replace(columns, columns=(*columns.columns, fault))


class RowsDecoder:
    """Decodes flat rows; the last one of `columns` must be `FAULT`."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table = table
        self._columns = columns
        self._listing_member = table.columns_to_update
        self._opener = RowOpener(table, columns)
        self._encoded_reader = lru_cache(_MOST_BLOCKS)(self._make_reader)
        self._is_declared = declares_binaries(table.feeds[0]) or declares_decimals(table.feeds[0])
        self._reader = FlatRowReader(table, columns, self._protocol)

    def read(self, records: Slice) -> ReadPart:
        """Rows as upserts without a sequence; reason, message and `FAULT` say a fault."""
        places, old_keys = [*range(records.part.num_rows)], list[str | None]()
        if self._opener.envelope is None:
            opened = self._opener.open(records)
            operations: list[str | None] = [UPSERT] * opened.size
        else:
            places, within = self._opener.unfold(records)
            records, opened = records.take(places), _group_rows(within)
            operations = [_operation_of(row) for row in within]
            old_keys = [getattr(row, "old_key", None) for row in within]
        rows = read_groups(opened, self._read_group)
        broken = dict.fromkeys([at for at, fault in opened.others.items() if fault], EVERY)
        ruled_out = dict.fromkeys(rows.value_faults, OF_VALUES)
        ruled_out |= dict.fromkeys(rows.key_faults, OF_KEY) | broken
        for at, fault in opened.others.items():
            operations[at] = NONE if fault is None else None
        columns = rows.columns | rows.absent_where(operations)
        if any(old_keys):
            columns["_old_key"] = pa.array(old_keys, pa.string())
        if ruled_out:
            columns[FAULT] = pa.array([*map(ruled_out.get, range(opened.size))], pa.string())
        faults = rows.value_faults | rows.key_faults | opened.others
        read = read_part(records, columns, operations, faults, rows.mismatched)
        return read._replace(places=places)

    def _read_group(self, group: RowGroup) -> FlatRows:
        reader, block = self._reader, group.kind.block
        if self._is_declared or block is not None or has_added_members(group.members):
            reader = self._encoded_reader(block)
        rows, name = reader.read(group, self._find_carried(group)), self._listing_member or ""
        for at, listed in zip(group.indices, group.members.get(name, ()), strict=False):
            if type(listed) not in _LISTS:
                fault = Fault(BAD_VALUE, misfit_message(name, listed, _NAMES))
                rows.value_faults.setdefault(at, fault)
        return rows

    def _make_reader(self, block: bytes | None) -> FlatRowReader:
        make = partial(self._opener.reader, block)
        return FlatRowReader(self._table, self._columns, self._protocol, make)

    @property
    def _protocol(self) -> list[str]:
        return [self._listing_member] if self._listing_member else []

    def _find_carried(self, group: RowGroup) -> list[Collection[str] | None] | None:
        """The columns that each row carries; None when it carries all that it has."""
        listed, left_out = group.members.get(self._listing_member or ""), group.kind.left_out
        every = group.members.keys() - left_out if left_out else None
        if listed is None or self._listing_member is None:
            return [every] * len(group.indices) if left_out else None
        return [every if one is None else self._list_names(one) - left_out for one in listed]

    def _list_names(self, listed: object) -> set[str]:
        """The columns that a row lists, as a JSON array, or with commas between the names."""
        if not isinstance(listed, list):
            listed = _split_names(text_of(listed))
        return {*self._opener.spellings([text_of(name) for name in listed if name is not None])}


class RowsDiscovery(FlatDiscovery):
    """Finds the columns of flat rows."""

    def __init__(self, table: Table, columns: Columns) -> None:
        super().__init__(table, columns)
        self._rows = self._opener = RowOpener(table, columns)

    def rows_of(self, record: Record) -> Iterable[Mapping[str, object]]:
        """The members of the record's rows, those of an envelope among them."""
        if self._opener.envelope is None:
            return super().rows_of(record)
        rows = self._opener.rows_within(record)
        return [row.members for row in rows if isinstance(row, EnvelopeRow)]

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns, `FAULT` as the last one, and the shapes of the rows."""
        columns, shapes = super().settle(whole)
        return with_fault_column(columns), shapes


def _operation_of(row: EnvelopeRow | Fault | None) -> str | None:
    return row.operation if isinstance(row, EnvelopeRow) else None


def _group_rows(rows: Sequence[EnvelopeRow | Fault | None]) -> OpenedSlice:
    """Rows out of envelopes in groups with the same members."""
    alike: dict[bool, Parsed] = {}
    others: dict[int, Fault | None] = {}
    for at, row in enumerate(rows):
        if isinstance(row, EnvelopeRow):
            parsed = alike.setdefault(row.complete, Parsed([], []))
            parsed.places.append(at)
            parsed.values.append(row.members)
        else:
            others[at] = row
    groups = [
        group for is_whole, rows in alike.items() for group in group_rows(rows, RowTraits(is_whole))
    ]
    return OpenedSlice(len(rows), groups, others)


def _split_names(text: str) -> list[object]:
    try:
        names = parse_json(text)
    except NotJson:
        names = None
    return names if isinstance(names, list) else [name.strip(" ") for name in text.split(",")]
