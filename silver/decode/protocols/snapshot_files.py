"""Rows of full or delta snapshots: flat columns in files below `PATH/YYYY-MM-DD/`.

The folder's name is the business effective date of its rows, and their sequence. A decoded row is
the state of its key on that date; columns that it lacks are null.
"""

import re
from datetime import date, timedelta
from functools import lru_cache, partial

import pyarrow as pa

from lakehouse.config.table import Table
from silver.contract import NONE, UPSERT
from silver.decode.change import BAD_SEQUENCE, Change, Record
from silver.decode.columns import Columns
from silver.decode.protocols.file_rows import FileRows
from silver.decode.protocols.objects import Fault, FlatRowReader, broken_row, time_of
from silver.decode.protocols.slices import (
    FlatColumns,
    FlatShape,
    read_rows,
    skip_hive_folders,
)
from silver.decode.shapes import Parsed
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.sequences import literal_sequence

_DAY_OF_1970 = date(1970, 1, 1)
_MICROS_OF_A_DAY = 86_400_000_000


def folder_pattern(table: Table) -> str:
    """A regular expression for a file's path, whose first group is the name of the date folder."""
    folder = re.escape(str(table.feeds[0].path).strip("/"))
    return rf"^.*/{folder}/(\d{{4}}-\d{{2}}-\d{{2}})/"


def folder_of(file: str, table: Table) -> str | None:
    """The name of the date folder that a file lies in; None where there is none."""
    match = re.match(folder_pattern(table), file)
    return match[1] if match else None


def sequence_of_day(day: date) -> str:
    """The sequence of all changes of a snapshot."""
    return literal_sequence([(day - _DAY_OF_1970).days])


def day_of_sequence(sequence: str) -> date:
    """The date of a snapshot by the sequence of its changes."""
    return _DAY_OF_1970 + timedelta(days=int(sequence, 16))


class SnapshotDecoder:
    """Decodes rows of snapshot files."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table = table
        self._rows = FileRows(table, columns)
        self._reader = FlatRowReader(table, columns)
        self._flat = FlatColumns(columns, self._reader, self._rows.spellings)
        self._find_order = lru_cache(maxsize=1_024)(partial(_find_order, table))

    def decode(self, record: Record) -> Change:
        """The row as an upsert on its file's date; a dead letter has that date's sequence too."""
        order = self._find_order(record.file or "")
        sequence, time = (None, time_of(record)) if order is None else order
        change = Change(UPSERT, (), sequence, source_time=time)
        if record.raw is None:
            change.operation = NONE
            return change
        members = self._rows.read(record)
        if members is None:
            fault: Fault | None = broken_row(record.raw, self._table)
        else:
            row = self._reader.read(members, complete=True)
            change.values, change.mismatched = row.values, row.mismatched
            fault = row.key_fault or row.value_fault
        if order is None:
            message = f"file {record.file}: expected it below a folder YYYY-MM-DD"
            fault = Fault(BAD_SEQUENCE, message)
        if fault is not None:
            change.operation, (change.reason, change.message) = None, fault
        return change

    def read(self, records: Slice) -> ReadPart | None:
        """Reads what it can of a slice column by column; others are decoded one by one."""
        files = records.column("_file")
        orders = {file: self._find_order(file or "") for file in {*files}}
        places = [at for at in skip_hive_folders(records) if orders[files[at]] is not None]

        def build_part(_: Slice, shape: FlatShape, parsed: Parsed) -> ReadPart:
            columns, fits, _members = self._flat.convert(shape, parsed.values)
            found = [orders[files[at]] or ("", 0) for at in parsed.places]
            columns["_operation"] = pa.array([UPSERT] * len(found), pa.string())
            columns["_sequence"] = pa.array([sequence for sequence, _ in found], pa.string())
            times = pa.array([time for _, time in found], pa.int64())
            columns["_source_time"] = times.cast(pa.timestamp("us", tz="UTC"))
            return ReadPart(parsed.places, columns).only(fits)

        return read_rows(
            records, places, lambda row: self._flat.shape(tuple(row), complete=True), build_part
        )


def _find_order(table: Table, file: str) -> tuple[str, int] | None:
    """Sequence and source time of a file's rows; None where its folder is no date since 1970."""
    try:
        day = date.fromisoformat(folder_of(file, table) or "")
    except ValueError:
        return None
    if day < _DAY_OF_1970:
        return None
    return sequence_of_day(day), (day - _DAY_OF_1970).days * _MICROS_OF_A_DAY
