"""Values of a column's type as plain JSON values again."""

import base64
from datetime import datetime, timedelta
from decimal import Decimal

import msgspec
from pyspark.sql import types as T

from silver.decode.values.json_values import NumberText

_MILLISECOND = 1_000
_EPOCH = datetime.fromisoformat("1970-01-01")


def plain_value(value: object, type: T.DataType) -> object:
    """A value of a column's type as JSON has it and Spark's `from_json` reads it.

    Of a struct, members that are null are left out. A timestamp has three digits of fraction, or
    six where it needs them.
    """
    if isinstance(value, str) and isinstance(type, T.VariantType):
        return msgspec.Raw(value.encode())
    if isinstance(value, list):
        return _plain_items(value, type)
    if isinstance(value, dict) and isinstance(type, T.StructType):
        members = {f.name: (value[f.name], f.dataType) for f in type.fields}
        return {name: plain_value(v, of) for name, (v, of) in members.items() if v is not None}
    if isinstance(value, int) and isinstance(type, T.DateType):
        return date_text(value)
    if isinstance(value, int) and isinstance(type, T.TimestampType | T.TimestampNTZType):
        return _timestamp(value) + ("Z" if isinstance(type, T.TimestampType) else "")
    if isinstance(value, Decimal) and isinstance(type, T.DecimalType):
        return NumberText(f"{value:.{type.scale}f}")
    if isinstance(value, float):
        return NumberText(repr(value)) if value - value == 0 else special_text(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def date_text(days: int) -> str:
    """A date as Spark prints it."""
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def timestamp_text(micros: int) -> str:
    """A timestamp without a zone as Spark prints it: no zeros at the end of the fraction."""
    text = (_EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")
    return text.rstrip("0").removesuffix(".")


def _plain_items(value: list[object], type: T.DataType) -> object:
    if isinstance(type, T.MapType):
        pairs = [pair for pair in value if isinstance(pair, tuple)]
        named = {str(plain_value(key, type.keyType)): item for key, item in pairs}
        return {key: plain_value(item, type.valueType) for key, item in named.items()}
    element = type.elementType if isinstance(type, T.ArrayType) else T.StringType()
    return [plain_value(item, element) for item in value]


def _timestamp(micros: int) -> str:
    day, _, clock = timestamp_text(micros).partition(" ")
    whole, _, fraction = clock.partition(".")
    digits = 3 if micros % _MILLISECOND == 0 else 6
    return f"{day}T{whole}.{fraction.ljust(digits, '0')}"


def special_text(value: float) -> str:
    """A number that is none, or infinite, as JSON's texts have it."""
    return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"
