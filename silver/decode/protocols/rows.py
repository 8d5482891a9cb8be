"""Flat rows of any origin, with an order and operations that the table's YAML spells out.

The orders and conditions are SQL: `silver.decode.expressions.rows` evaluates them over the decoded
columns. The decoder therefore returns every row as an upsert, with extra columns: the members that
the expressions use and the table does not hold, and `FAULT`, which says which operations a faulty
row can still be. A row that leaves columns out changes only the others; `columns_to_update` names a
member that lists the columns that a row carries. That member itself is no column.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache, partial

import pyarrow as pa
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.contract import NONE, UPSERT
from silver.decode.avro.binary import NotAvro
from silver.decode.change import BAD_SEQUENCE, ILLEGAL_CHANGE, NOT_AVRO, Change, Record
from silver.decode.columns import Columns, DecodedColumn, Shape
from silver.decode.debezium.events.flattened import has_added_members
from silver.decode.expressions.names import FAULT, deletes_sql
from silver.decode.protocols.discovery import FlatDiscovery
from silver.decode.protocols.encoded_rows import RowOpener
from silver.decode.protocols.objects import Fault, FlatRowReader, broken_row, time_of
from silver.decode.protocols.slices import (
    FlatColumns,
    FlatShape,
    read_rows,
    record_times,
    skip_hive_folders,
    skip_texts,
)
from silver.decode.shapes import Parsed
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.encodings import declares_binaries, declares_decimals
from silver.decode.values.json_values import NotJson, parse_json, text_of
from silver.decode.wrapped import holds_rows

_MOST_BLOCKS = 256
_TOMBSTONE = (
    "a tombstone deletes its key, but has nothing that sequence_by could order, expected deletes "
    "as rows (apply_as_deletes), or format debezium with envelope: flattened"
)
_ENVELOPE = (
    "found an envelope of Canal, Maxwell or CloudEvents, which has its rows in data, expected flat "
    "rows; a table of the envelopes themselves declares the column data"
)
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
        self._listing_members = [self._listing_member] if self._listing_member else []
        self._encoded_reader = lru_cache(_MOST_BLOCKS)(self._make_reader)
        is_declared = declares_binaries(table.feeds[0]) or declares_decimals(table.feeds[0])
        self._reader = (
            self._make_reader(None)
            if is_declared
            else FlatRowReader(table, columns, self._listing_members)
        )
        self._deletes_are_rows = deletes_sql(table) is not None
        self._reads_slices = self._opener.takes_plain_rows and not self._listing_member
        self._flat = FlatColumns(columns, self._reader, self._opener.rows.spellings)

    def decode(self, record: Record) -> Change:
        """The row as an upsert without a sequence; `reason`, `message` and `FAULT` say a fault."""
        time = time_of(record)
        if record.raw is None:
            return self._decode_tombstone(record, time)
        try:
            opened = self._opener.open(record)
        except NotAvro as error:
            return self._reject(Fault(NOT_AVRO, str(error)), time)
        except NotJson:
            return self._reject(broken_row(record.raw, self._table), time)
        if opened.members is None:
            return self._decode_tombstone(record, time)
        if _is_envelope(opened.members, self._table):
            return self._reject(Fault(ILLEGAL_CHANGE, _ENVELOPE), time)
        reader = self._encoded_reader(opened.block) if opened.encoded else self._reader
        row = reader.read(opened.members, self._find_carried(opened.members, opened.left_out))
        change = Change(
            UPSERT, row.values, absent=row.absent, source_time=time, mismatched=row.mismatched
        )
        fault = row.key_fault or row.value_fault
        row.values.append(None)
        if fault is not None:
            row.values[-1] = OF_VALUES if row.key_fault is None else OF_KEY
            change.reason, change.message = fault
        return change

    def read(self, records: Slice) -> ReadPart | None:
        """Reads what it can of a slice column by column; others are decoded one by one."""
        if not self._reads_slices:
            return None
        places = skip_texts(records, skip_hive_folders(records), self._opener.marks)
        return read_rows(records, places, self._find_shape, self._build_part)

    def _find_shape(self, row: Mapping[str, object]) -> FlatShape | None:
        if has_added_members(row) or _is_envelope(row, self._table):
            return None
        return self._flat.shape(tuple(row))

    def _build_part(self, records: Slice, shape: FlatShape, parsed: Parsed) -> ReadPart:
        columns, fits, _ = self._flat.convert(shape, parsed.values)
        count = len(parsed.places)
        columns["_operation"] = pa.array([UPSERT] * count, pa.string())
        columns["_absent"] = pa.array([shape.said.absent] * count, pa.list_(pa.string()))
        columns["_source_time"] = record_times(records, parsed.places)
        return ReadPart(parsed.places, columns).only(fits)

    def _make_reader(self, block: bytes | None) -> FlatRowReader:
        make = partial(self._opener.converter, block)
        return FlatRowReader(self._table, self._columns, self._listing_members, make)

    def _decode_tombstone(self, record: Record, time: int) -> Change:
        """A tombstone: ignored without a key or if deletes are rows, else a dead letter."""
        if record.key is None or self._deletes_are_rows:
            return Change(NONE, [*self._reader.nothing(), None], source_time=time)
        return self._reject(Fault(BAD_SEQUENCE, _TOMBSTONE), time)

    def _reject(self, fault: Fault, time: int) -> Change:
        values = [*self._reader.nothing(), EVERY]
        return Change(None, values, source_time=time, reason=fault.reason, message=fault.message)

    def _find_carried(
        self, members: Mapping[str, object], left_out: frozenset[str]
    ) -> Collection[str] | None:
        """The columns that the row carries; None when it carries all that it has.

        It lists them as a JSON array, or as text with commas between the names.
        """
        listed = members.get(self._listing_member) if self._listing_member else None
        if listed is None:
            return members.keys() - left_out if left_out else None
        if not isinstance(listed, list):
            listed = _split_names(text_of(listed))
        names = [text_of(name) for name in listed if name is not None]
        return {*self._opener.rows.spellings(names)} - left_out


class RowsDiscovery(FlatDiscovery):
    """Finds the columns of flat rows."""

    def __init__(self, table: Table, columns: Columns) -> None:
        super().__init__(table, columns)
        self._opener = RowOpener(table, columns)

    def row_of(self, record: Record) -> Mapping[str, object] | None:
        """The members of the row; None where the record is no JSON object."""
        if record.raw is None:
            return None
        try:
            members = self._opener.open(record).members
        except (NotJson, NotAvro):
            return None
        return None if members is None or _is_envelope(members, self._table) else members

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns, `FAULT` as the last one, and the shapes of the rows."""
        columns, shapes = super().settle(whole)
        return with_fault_column(columns), shapes


def _is_envelope(members: Mapping[str, object], table: Table) -> bool:
    """Whether a record is an envelope that wraps its rows, though the table expects flat rows."""
    return holds_rows(members) and "data" not in table.columns


def _split_names(text: str) -> list[object]:
    try:
        names = parse_json(text)
    except NotJson:
        names = None
    return names if isinstance(names, list) else [name.strip(" ") for name in text.split(",")]
