"""Columns that are no fields of the row: taken from the source block, or from the record's key."""

from collections.abc import Mapping

from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import Columns
from silver.decode.debezium.events.envelope import OF_SOURCE, Envelope, key_row
from silver.decode.types import Misfit
from silver.decode.values.converters import converter_of
from silver.decode.values.encodings import Encoding, Kind, Unit
from silver.decode.values.numbers import Converter

_UNITS: Mapping[str, Unit] = {"ts_ms": "ms", "ts_us": "us", "ts_ns": "ns"}


class EnvelopeColumns:
    """The columns of a table that declare where in a record they are from.

    Attributes:
        readings: member of the source block or of the key, place of the column, converter.
        places: the columns' places.
    """

    def __init__(self, table: Table, columns: Columns) -> None:
        self.readings: list[tuple[str, int, Converter]] = []
        for at, column in enumerate(columns.columns):
            declared = table.columns.get(column.name)
            if declared is not None and declared.origin is not None:
                convert = _converter(declared.origin, column.type)
                self.readings.append((declared.origin, at, convert))
        self.places = [at for _, at, _ in self.readings]

    def fill(self, values: list[object], envelope: Envelope, record: Record) -> dict[int, object]:
        """Puts the columns' values in their places; returns those that do not fit, by place."""
        misfits: dict[int, object] = {}
        for origin, at, convert in self.readings:
            value = _member(origin, envelope, record)
            try:
                values[at] = None if value is None else convert(value)
            except Misfit:
                misfits[at] = value
        return misfits


def _member(origin: str, envelope: Envelope, record: Record) -> object:
    if not origin.startswith(OF_SOURCE):
        return (key_row(record.key) or {}).get(origin)
    source = envelope.source
    return None if source is None else getattr(source, origin.removeprefix(OF_SOURCE))


def _converter(origin: str, type: T.DataType) -> Converter:
    unit = _UNITS.get(origin.removeprefix(OF_SOURCE))
    is_moment = isinstance(type, T.TimestampType | T.TimestampNTZType | T.DateType)
    kind: Kind = "timestamp" if unit is not None and is_moment else "plain"
    return converter_of(Encoding(kind, type, unit=unit or "us"), type)
