"""Debezium's changes that are decoded one by one, as columns."""

from collections.abc import Sequence
from operator import attrgetter

import pyarrow as pa

from lakehouse.config.table import Table
from silver.decode.change import BAD_VALUE, CHANGE_FIELDS, Change
from silver.decode.columns import Columns
from silver.decode.types import arrow_type, carrier_type
from silver.decode.values.bulk import REFUSALS
from silver.decode.values.converters import LONGEST_SHOWN
from silver.decode.values.json_values import valid_text

_of_change = attrgetter(*(name[1:] for name in CHANGE_FIELDS))


class ChangeColumns:
    """Makes the columns of the changes of one table."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self._table, self._columns = table, columns.columns
        types = [(c.name, arrow_type(carrier_type(c.type))) for c in columns.columns]
        self._fields = [pa.field(*one) for one in (*types, *CHANGE_FIELDS.items())]
        self._nothing = (None,) * len(columns.columns)

    def build(self, changes: list[Change]) -> dict[str, pa.Array]:
        """The columns by name; a value that Arrow refuses makes its change a dead letter."""
        arrays: dict[str, pa.Array] = {}
        columns = self._list_columns(changes)
        while len(arrays) < len(self._fields):
            at = len(arrays)
            field = self._fields[at]
            try:
                arrays[field.name] = pa.array(columns[at], field.type)
            except REFUSALS:
                for row, value in enumerate(columns[at]):
                    if _is_refused(value, field.type):
                        changes[row] = self._reject_misfit(changes[row], at, value)
                columns, arrays = self._list_columns(changes), {}
        return arrays

    def _list_columns(self, changes: list[Change]) -> list[Sequence[object]]:
        values = [change.values or self._nothing for change in changes]
        for change in changes:
            if change.message is not None:
                change.message = valid_text(change.message)
        *others, mismatched = zip(*map(_of_change, changes), strict=True)
        return [*zip(*values, strict=True), *others, [one or None for one in mismatched]]

    def _reject_misfit(self, change: Change, at: int, value: object) -> Change:
        """The dead letter of a change with a value that Arrow refuses; other keys are kept.

        Where null is a value of a key, a key is kept whole or not at all.
        """
        name, table = self._fields[at].name, self._table
        hidden = table.is_sensitive(name)
        shown = "a value that is not shown" if hidden else repr(str(value)[:LONGEST_SHOWN])
        expected = self._fields[at].type
        if at < len(self._nothing):
            expected = carrier_type(self._columns[at].type).simpleString()
        misread = name in table.keys and table.nullable_keys
        keys = [] if misread else [key for key in table.keys if key != name]
        given = zip(self._columns, change.values or self._nothing, strict=True)
        kept = [one if column.name in keys else None for column, one in given]
        message = valid_text(f"column {name}: found {shown}, expected {expected}")
        return Change(None, kept, reason=BAD_VALUE, message=message, mismatched=change.mismatched)


def _is_refused(value: object, type: pa.DataType) -> bool:
    try:
        pa.array([value], type)
    except REFUSALS:
        return True
    return False
