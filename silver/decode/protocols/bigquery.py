"""BigQuery's change rows: flat columns with `_CHANGE_TYPE` and maybe `_CHANGE_SEQUENCE_NUMBER`.

The rules and limits are those of BigQuery's change data capture: only UPSERT and DELETE, sequence
numbers of up to four hexadecimal sections, rows of one key without them in order of arrival, at
most 16 key columns and 2,000 columns. A row that leaves columns out changes only the others. With
`sequence_by` those expressions order the rows (`silver.decode.expressions.rows` evaluates them) and
`_CHANGE_SEQUENCE_NUMBER` does not count.
"""

from collections.abc import Collection, Sequence

import pyarrow as pa

from lakehouse.config.table import Table
from lakehouse.config.table_rules import MOST_BIGQUERY_COLUMNS, MOST_BIGQUERY_KEYS
from silver.contract import DELETE, NONE, UPSERT
from silver.decode.change import BAD_SEQUENCE, ILLEGAL_CHANGE, UNKNOWN_OPERATION
from silver.decode.columns import Columns
from silver.decode.protocols.file_rows import FileRows
from silver.decode.protocols.objects import Fault
from silver.decode.protocols.reader import FlatRowReader, read_groups
from silver.decode.protocols.slices import read_part
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
        self._rows = FileRows(table, columns, (_TYPE, _NUMBER))
        self._reader = FlatRowReader(table, columns, (_TYPE, _NUMBER))
        self._numbered = not table.sequence_by
        self._too_many_keys: Fault | None = None
        if len(table.keys) > MOST_BIGQUERY_KEYS:
            message = f"{len(table.keys)} key columns, at most {MOST_BIGQUERY_KEYS}"
            self._too_many_keys = Fault(ILLEGAL_CHANGE, message)

    def read(self, records: Slice) -> ReadPart:
        """The changes that rows say; without sequences where `sequence_by` orders the rows."""
        opened = self._rows.open(records)
        rows = read_groups(opened, self._reader.read)
        types = opened.values(_TYPE)
        operations = [_OPERATIONS.get(str(kind)) for kind in types]
        faults: dict[int, Fault | None] = {}
        if self._numbered:
            numbers = opened.values(_NUMBER)
            sequences = [*map(_find_sequence, records.column("_arrival"), numbers)]
            faults |= _judge_member(_NUMBER, sequences, numbers)
            for at in opened.others:
                sequences[at] = None
            rows.columns["_sequence"] = pa.array(sequences, pa.string())
        faults |= {at: one for at, one in rows.value_faults.items() if operations[at] == UPSERT}
        faults |= rows.key_faults
        for group in opened.groups:
            if fault := self._too_many_keys or _too_many_columns(group.members):
                faults |= dict.fromkeys(group.indices, fault)
        faults |= _judge_member(_TYPE, operations, types) | opened.others
        for at, fault in faults.items():
            operations[at] = NONE if fault is None else None
        columns = rows.columns | rows.absent_where([kind == UPSERT for kind in operations])
        return read_part(records, columns, operations, faults, rows.mismatched)


def _find_sequence(arrival: str, number: object) -> str | None:
    return arrival_sequence(arrival) if number is None else canonical_sequence(text_of(number))


def _judge_member(
    name: str, read: Sequence[str | None], values: Sequence[object]
) -> dict[int, Fault]:
    """The faults of rows whose operation or sequence number was read as none."""
    faults = {}
    reason, said, expected = _EXPECTED[name]
    for at, value in enumerate(values) if None in read else ():
        if read[at] is None:
            shown = "nothing" if value is None else f"'{text_of(value)}'"
            faults[at] = Fault(reason, f"{said}{name}: found {shown}, expected {expected}")
    return faults


def _too_many_columns(members: Collection[str]) -> Fault | None:
    columns = len(members) - (_TYPE in members) - (_NUMBER in members)
    if columns <= MOST_BIGQUERY_COLUMNS:
        return None
    return Fault(ILLEGAL_CHANGE, f"{columns} columns, at most {MOST_BIGQUERY_COLUMNS}")
