"""Rows of full or delta snapshots: flat columns in files below `PATH/YYYY-MM-DD/`.

The folder's name is the business effective date of its rows, and their sequence. A decoded row is
the state of its key on that date; columns that it lacks are null.
"""

import re
from datetime import date, timedelta
from functools import lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.table import Table
from silver.contract import NONE, UPSERT
from silver.decode.change import BAD_SEQUENCE
from silver.decode.columns import Columns
from silver.decode.protocols.file_rows import FileRows
from silver.decode.protocols.objects import Fault
from silver.decode.protocols.reader import FlatRowReader, read_groups
from silver.decode.protocols.slices import UTC, RowTraits, read_part, record_times
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.sequences import literal_sequence

_EXPECTED = "expected it below a folder YYYY-MM-DD, a date from 1970 on"
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
        self._rows = FileRows(table, columns)
        self._reader = FlatRowReader(table, columns)
        self._find_order = lru_cache(maxsize=1_024)(partial(_find_order, table))

    def read(self, records: Slice) -> ReadPart:
        """Rows as upserts on their file's date; dead letters have that date's sequence too."""
        opened = self._rows.open(records)
        groups = [group._replace(kind=RowTraits(complete=True)) for group in opened.groups]
        rows = read_groups(opened._replace(groups=groups), self._reader.read)
        faults = rows.value_faults | rows.key_faults | opened.others
        files = records.column("_file")
        orders = {file: self._find_order(file or "") for file in {*files}}
        if None in orders.values():
            for at, file in enumerate(files):
                if orders[file] is None and faults.get(at, _EXPECTED) is not None:
                    faults[at] = Fault(BAD_SEQUENCE, f"file {file}: {_EXPECTED}")
        operations: list[str | None] = [UPSERT] * opened.size
        for at, fault in faults.items():
            operations[at] = NONE if fault is None else None
        stamps = [orders[file] or (None, None) for file in files]
        times = pa.array([time for _, time in stamps], pa.int64())
        columns = rows.columns | {
            "_sequence": pa.array([sequence for sequence, _ in stamps], pa.string()),
            "_source_time": pc.coalesce(times, record_times(records)).cast(UTC),
        }
        return read_part(records, columns, operations, faults, rows.mismatched)


def _find_order(table: Table, file: str) -> tuple[str, int] | None:
    """Sequence and source time of a file's rows; None where its folder is no date since 1970."""
    try:
        day = date.fromisoformat(folder_of(file, table) or "")
    except ValueError:
        return None
    if day < _DAY_OF_1970:
        return None
    return sequence_of_day(day), (day - _DAY_OF_1970).days * _MICROS_OF_A_DAY
