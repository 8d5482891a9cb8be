"""Values out of Avro's binary encoding as values of a column's type."""

import base64
import math

from pyspark.sql import types as T

from silver.decode.values import numbers
from silver.decode.values.converters import converter_of
from silver.decode.values.encodings import Encoding
from silver.decode.values.json_values import NumberText, special_text
from silver.decode.values.numbers import Converter

_SAME_KINDS = ("plain", "date", "timestamp", "time")
"""Encodings whose values are texts, whole numbers and booleans, as they are in JSON."""


def avro_converter_of(encoding: Encoding, type: T.DataType) -> Converter:
    """The function that turns Avro's values other than null into values of the column's type.

    It raises `Misfit` for a value that does not fit, by the same rules as for JSON.
    """
    if encoding.kind == "plain" and encoding.type == type and isinstance(type, T.IntegralType):
        return lambda value: value
    from_json = converter_of(encoding, type)
    if isinstance(type, T.BinaryType) and encoding.kind == "base64":
        return lambda value: value if isinstance(value, bytes) else from_json(as_json(value))
    if isinstance(type, T.DoubleType):
        return lambda value: value if isinstance(value, float) else from_json(as_json(value))
    if encoding.kind == "decimal" and isinstance(type, T.DecimalType):
        return _decimal_converter(encoding.scale, type, from_json)
    if encoding.kind in _SAME_KINDS and not isinstance(encoding.type, T.FractionalType):
        return from_json
    return lambda value: from_json(as_json(value))


def as_json(value: object) -> object:
    """A value as Kafka Connect's JSON converter would have written it, parsed."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return NumberText(repr(value)) if math.isfinite(value) else special_text(value)
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list) else value


def _decimal_converter(scale: int, type: T.DecimalType, from_json: Converter) -> Converter:
    """Reads two's complement with the scale that the schema gives."""
    limit = 10 ** (type.precision - type.scale + scale)
    exact = 0 <= scale <= type.scale
    to_decimal = numbers.make_scaler(scale)

    def convert(value: object) -> object:
        if exact and isinstance(value, bytes) and 0 < len(value) <= numbers.LONGEST:
            integer = int.from_bytes(value, "big", signed=True)
            if -limit < integer < limit:
                return to_decimal(integer)
        return from_json(as_json(value))

    return convert
