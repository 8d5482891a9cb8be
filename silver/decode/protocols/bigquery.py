"""BigQuery's change rows: flat columns with `_CHANGE_TYPE` and maybe `_CHANGE_SEQUENCE_NUMBER`.

The rules and limits are those of BigQuery's change data capture: only UPSERT and DELETE, sequence
numbers of up to four hexadecimal sections, rows of one key without them in order of arrival, at
most 16 key columns and 2,000 columns. A row that leaves columns out changes only the others. With
`sequence_by` those expressions order the rows (`silver.decode.expressions.rows` evaluates them) and
`_CHANGE_SEQUENCE_NUMBER` does not count.
"""

from collections.abc import Mapping

import pyarrow as pa

from lakehouse.config.table import Table
from lakehouse.config.table_rules import MOST_BIGQUERY_COLUMNS, MOST_BIGQUERY_KEYS
from silver.contract import DELETE, NONE, UPSERT
from silver.decode.change import BAD_SEQUENCE, ILLEGAL_CHANGE, UNKNOWN_OPERATION, Change, Record
from silver.decode.columns import Columns
from silver.decode.protocols.file_rows import FileRows
from silver.decode.protocols.objects import Fault, FlatRowReader, broken_row, time_of
from silver.decode.protocols.slices import (
    FlatColumns,
    FlatShape,
    read_rows,
    record_times,
    skip_hive_folders,
)
from silver.decode.shapes import Parsed
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import arrival_sequence, canonical_sequence

_TYPE, _NUMBER = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"
_OPERATIONS = {"UPSERT": UPSERT, "DELETE": DELETE}
_NO_TYPE = "The given value is not a valid CHANGE_TYPE. "
_EXPECTED = {
    _TYPE: (UNKNOWN_OPERATION, _NO_TYPE, "UPSERT or DELETE"),
    _NUMBER: (BAD_SEQUENCE, "", "1 to 4 sections of 1 to 16 hex digits"),
}


class BigQueryDecoder:
    """Decodes the change rows of one table."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table = table
        self._rows = FileRows(table, columns, (_TYPE, _NUMBER))
        self._reader = FlatRowReader(table, columns, (_TYPE, _NUMBER))
        self._numbered = not table.sequence_by
        self._too_many_keys: Fault | None = None
        if len(table.keys) > MOST_BIGQUERY_KEYS:
            message = f"{len(table.keys)} key columns, at most {MOST_BIGQUERY_KEYS}"
            self._too_many_keys = Fault(ILLEGAL_CHANGE, message)

        self._flat = FlatColumns(columns, self._reader, self._rows.spellings)

    def read(self, records: Slice) -> ReadPart | None:
        """Reads the plain records of a slice by columns; all others are decoded one by one."""
        if self._too_many_keys is not None:
            return None
        return read_rows(records, skip_hive_folders(records), self._find_shape, self._build_part)

    def _find_shape(self, row: Mapping[str, object]) -> FlatShape | None:
        return self._flat.shape(tuple(row)) if len(row) <= MOST_BIGQUERY_COLUMNS else None

    def _build_part(self, records: Slice, shape: FlatShape, parsed: Parsed) -> ReadPart:
        columns, fits, members = self._flat.convert(shape, parsed.values)
        count = len(parsed.places)
        sequences: list[str | None] = [None] * count
        types = members.get(_TYPE, sequences)
        operations = [_OPERATIONS.get(kind) if type(kind) is str else None for kind in types]
        if self._numbered:
            arrivals = records.column("_arrival")
            numbers = zip(parsed.places, members.get(_NUMBER, sequences), strict=True)
            sequences = [_find_sequence(arrivals[at], number) for at, number in numbers]
            fits = [one and s is not None for one, s in zip(fits, sequences, strict=True)]
        fits = [one and op is not None for one, op in zip(fits, operations, strict=True)]
        absent = [shape.said.absent if op == UPSERT else None for op in operations]
        columns["_operation"] = pa.array(operations, pa.string())
        columns["_sequence"] = pa.array(sequences, pa.string())
        columns["_absent"] = pa.array(absent, pa.list_(pa.string()))
        columns["_source_time"] = record_times(records, parsed.places)
        return ReadPart(parsed.places, columns).only(fits)

    def decode(self, record: Record) -> Change:
        """The change that a row says; its sequence is None where `sequence_by` orders the rows."""
        time = time_of(record)
        if record.raw is None:
            return Change(NONE, source_time=time)
        members = self._rows.read(record)
        if members is None:
            reason, message = broken_row(record.raw, self._table)
            return Change(None, source_time=time, reason=reason, message=message)
        row = self._reader.read(members)
        operation = _OPERATIONS.get(str(members.get(_TYPE)))
        change = Change(None, row.values, source_time=time, mismatched=row.mismatched)
        if self._numbered:
            change.sequence = _find_sequence(record.arrival, members.get(_NUMBER))
        faults = (
            _member_fault(members, _TYPE) if operation is None else None,
            self._too_many_keys,
            _too_many_columns(members),
            row.key_fault,
            row.value_fault if operation == UPSERT else None,
            _member_fault(members, _NUMBER) if self._numbered and change.sequence is None else None,
        )
        fault = next(filter(None, faults), None)
        if fault is not None:
            change.reason, change.message = fault
        else:
            change.operation = operation
            change.absent = row.absent if operation == UPSERT else None
        return change


def _find_sequence(arrival: str, number: object) -> str | None:
    return arrival_sequence(arrival) if number is None else canonical_sequence(text_of(number))


def _member_fault(members: Mapping[str, object], name: str) -> Fault:
    """The fault of a row whose operation or sequence number is none."""
    value = members.get(name)
    shown = "nothing" if value is None else f"'{text_of(value)}'"
    reason, said, expected = _EXPECTED[name]
    return Fault(reason, f"{said}{name}: found {shown}, expected {expected}")


def _too_many_columns(members: Mapping[str, object]) -> Fault | None:
    columns = len(members) - (_TYPE in members) - (_NUMBER in members)
    if columns <= MOST_BIGQUERY_COLUMNS:
        return None
    return Fault(ILLEGAL_CHANGE, f"{columns} columns, at most {MOST_BIGQUERY_COLUMNS}")
