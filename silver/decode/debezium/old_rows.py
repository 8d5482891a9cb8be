"""Old keys and old rows as JSON text, from typed values."""

import base64
from collections.abc import Iterable
from decimal import Decimal

from pyspark.sql import types as T

from silver.decode.columns import Column
from silver.decode.debezium.moments import date_text, timestamp_text
from silver.decode.json_values import NumberText, json_text

_MILLISECOND = 1_000


def row_json(columns: Iterable[Column], values: Iterable[object]) -> str:
    """The values as one JSON object as Spark's `to_json` writes it, without those that are null.

    A timestamp has three digits of fraction, or six where it needs them.
    """
    pairs = zip(columns, values, strict=True)
    return json_text({c.name: _plain(v, c.type) for c, v in pairs if v is not None})


def _plain(value: object, type: T.DataType) -> object:
    """A value of a column's type as JSON has it."""
    if isinstance(value, list):
        return _plain_items(value, type)
    if isinstance(value, dict) and isinstance(type, T.StructType):
        members = {f.name: (value[f.name], f.dataType) for f in type.fields}
        return {name: _plain(v, of) for name, (v, of) in members.items() if v is not None}
    if isinstance(value, int) and isinstance(type, T.DateType):
        return date_text(value)
    if isinstance(value, int) and isinstance(type, T.TimestampType | T.TimestampNTZType):
        return _timestamp(value) + ("Z" if isinstance(type, T.TimestampType) else "")
    if isinstance(value, Decimal) and isinstance(type, T.DecimalType):
        return NumberText(f"{value:.{type.scale}f}")
    if isinstance(value, float):
        return NumberText(repr(value)) if value - value == 0 else _special(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _plain_items(value: list[object], type: T.DataType) -> object:
    if isinstance(type, T.MapType):
        pairs = [pair for pair in value if isinstance(pair, tuple)]
        named = {str(_plain(key, type.keyType)): item for key, item in pairs}
        return {key: _plain(item, type.valueType) for key, item in named.items()}
    element = type.elementType if isinstance(type, T.ArrayType) else T.StringType()
    return [_plain(item, element) for item in value]


def _timestamp(micros: int) -> str:
    day, _, clock = timestamp_text(micros).partition(" ")
    whole, _, fraction = clock.partition(".")
    digits = 3 if micros % _MILLISECOND == 0 else 6
    return f"{day}T{whole}.{fraction.ljust(digits, '0')}"


def _special(value: float) -> str:
    return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"
