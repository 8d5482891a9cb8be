"""Rows as values of the table's columns."""

from collections.abc import Iterable

from silver.decode.debezium.events.envelope import Row
from silver.decode.debezium.refusals import Misfits
from silver.decode.debezium.row_plans import Reading
from silver.decode.types import Misfit


def convert_row(readings: Iterable[Reading], row: Row, width: int) -> tuple[list[object], Misfits]:
    """The values of a row by the place of their column, of which there are `width`; misfits too."""
    values: list[object] = [None] * width
    try:
        for field, at, convert in readings:
            value = row[field]
            if value is not None:
                values[at] = convert(value)
    except Misfit:
        return _convert_one_by_one(readings, row, width)
    return values, {}


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
