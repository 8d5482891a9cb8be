"""Rows as values of the table's columns: one row, or many rows of one writer column by column."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import repeat

from silver.decode.avro.bulk import Values, dictionaries
from silver.decode.debezium.events.envelope import Row
from silver.decode.debezium.events.placeholders import Placeholders
from silver.decode.debezium.refusals import Misfits
from silver.decode.debezium.row_plans import ConvertedRow, Reading, RowReader
from silver.decode.values.column_types import Misfit


def convert_row(readings: Iterable[Reading], row: Row, width: int) -> tuple[list[object], Misfits]:
    """The values of a row by the place of their column, of which there are `width`; misfits too.

    A `ConvertedRow` has its values already: all of them, whatever the readings.
    """
    if type(row) is ConvertedRow:
        return list(row.converted), {}
    values: list[object] = [None] * width
    try:
        for field, at, convert in readings:
            value = row[field]
            if value is not None:
                values[at] = convert(value)
    except Misfit:
        return _convert_one_by_one(readings, row, width)
    return values, {}


def convert_rows(
    reader: RowReader, placeholders: Placeholders, columns: Mapping[str, Values], count: int
) -> Values:
    """So many rows of one writer, of which `columns` are the values of each field.

    All are dictionaries where some value does not fit: record by record, it is found which. So they
    are where the table has no columns yet.
    """
    plan = reader.plan(columns)
    if not reader.width or len({at for _, at, _ in plan.readings}) < len(plan.readings):
        return dictionaries(columns, count, dict)
    converted: list[Iterable[object]] = [repeat(None, count)] * reader.width
    try:
        for field, at, convert in plan.readings:
            given = columns[field]
            if at not in plan.plain:
                given = [None if value is None else convert(value) for value in given]
            converted[at] = given
    except Exception:  # of a broken record too, which only record by record costs no other
        return dictionaries(columns, count, dict)
    large = tuple(one for one in plan.large if placeholders.is_in(columns[one[0]]))
    plan = replace(plan, large=large)
    rows = dictionaries(columns, count, ConvertedRow)
    for row, values in zip(rows, zip(*converted, strict=True), strict=True):
        row.plan, row.converted = plan, values
    return rows


def _convert_one_by_one(
    readings: Iterable[Reading], row: Row, width: int
) -> tuple[list[object], Misfits]:
    values: list[object] = [None] * width
    misfits: Misfits = {}
    for field, at, convert in readings:
        value = row[field]
        try:
            values[at] = values[at] if value is None else convert(value)
        except Misfit:
            misfits[at] = value
    return values, misfits
