"""A JSON token as a value of its column's type, null when it does not fit; all in SQL text."""

from pyspark.sql import types as T

from lakehouse.names import literal
from silver import debezium_moments as moments
from silver import debezium_numbers as numbers
from silver.debezium_encoding import Encoding

_MOST_DIGITS = 38


def converted(token: str, encoding: Encoding, type: T.DataType) -> str:
    """The value of a token, as a SQL expression.

    Reads `_sourced` beside the token: whether the record has a source block. One without is not
    Debezium's own JSON, and its numbers are plain.

    Args:
        token: SQL of the JSON value as text; text values without their quotes.
        encoding: what the token stands for.
        type: the column's type; where it is not the encoding's own, a value that fits is cast.

    Returns:
        SQL of the value; it is null for a null token and for one that does not fit.
    """
    if isinstance(type, T.StringType):
        return _text(token, encoding)
    if isinstance(type, T.NumericType):
        return _number(token, encoding, type)
    if isinstance(type, T.DateType):
        return _date(token, encoding)
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        return _timestamp(token, encoding, type)
    if isinstance(type, T.BinaryType):
        return _binary(token, encoding)
    if isinstance(type, T.ArrayType):
        return _array(token, encoding, type)
    if isinstance(type, T.BooleanType):
        return f"try_cast({token} AS boolean)"
    return f"from_json({token}, {literal(type.simpleString())})"


def _text(token: str, encoding: Encoding) -> str:
    if encoding.kind == "decimal":
        return numbers.scaled_text(token, str(encoding.scale))
    if encoding.kind == "variable":
        return numbers.variable_text(token)
    if encoding.kind == "loose":
        variable = numbers.variable_text(token)
        return f"CASE WHEN {numbers.is_variable(token)} THEN {variable} ELSE {token} END"
    if encoding.kind == "date":
        return f"cast({moments.date(token)} AS string)"
    if encoding.kind == "time":
        return moments.time_text(token, encoding.unit)
    if encoding.kind == "timestamp" and encoding.type == "timestamp_ntz":
        return f"cast({moments.timestamp(token, encoding.unit, zoned=False)} AS string)"
    return token


def _number(token: str, encoding: Encoding, type: T.NumericType) -> str:
    if encoding.kind == "decimal":
        return _exactly(numbers.scaled(token, encoding.scale), type, encoding.scale)
    if encoding.kind == "variable":
        return _exactly(numbers.variable_text(token), type)
    if encoding.kind != "precise":
        return _exactly(token, type)
    variable = f"startswith({token}, '{{') THEN {_exactly(numbers.variable_text(token), type)}"
    if encoding.scale < 0:
        return f"CASE WHEN {variable} ELSE {_exactly(token, type)} END"
    packed = f"_sourced AND {numbers.is_base64(token)}"
    scaled = f"try_cast({numbers.scaled(token, encoding.scale)} AS {type.simpleString()})"
    return f"CASE WHEN {packed} THEN {scaled} WHEN {variable} ELSE {_exactly(token, type)} END"


def _exactly(text: str, type: T.NumericType, scale: int | None = None) -> str:
    """The number in a text, null where a decimal type would round it.

    `scale` is how many digits it has behind the point; unless it is told, it may have as many as
    there is room for.
    """
    value = f"try_cast({text} AS {type.simpleString()})"
    if not isinstance(type, T.DecimalType):
        return value
    digits = _MOST_DIGITS - type.precision + type.scale if scale is None else scale
    if digits <= type.scale:
        return value
    exact = f"try_cast({text} AS decimal({_MOST_DIGITS},{digits}))"
    return f"CASE WHEN {value} = {exact} THEN {value} END"


def _date(token: str, encoding: Encoding) -> str:
    if encoding.kind == "timestamp":
        return f"cast({moments.timestamp(token, encoding.unit, zoned=False)} AS date)"
    return moments.date(token)


def _timestamp(token: str, encoding: Encoding, type: T.DataType) -> str:
    if encoding.kind == "date":
        return f"cast({moments.date(token)} AS {type.simpleString()})"
    return moments.timestamp(token, encoding.unit, isinstance(type, T.TimestampType))


def _binary(token: str, encoding: Encoding) -> str:
    if encoding.kind == "hex":
        return f"try_to_binary({token}, 'hex')"
    if encoding.kind == "base64url":
        return f"try_to_binary(translate({token}, '-_', '+/'), 'base64')"
    return f"try_to_binary({token}, 'base64')"


def _array(token: str, encoding: Encoding, type: T.ArrayType) -> str:
    items = encoding.items or Encoding("plain", type.elementType.simpleString())
    item = f"item_{token.count('item')}"
    value = converted(item, items, type.elementType)
    tokens = f"from_json({token}, 'array<string>')"
    if value == item:
        return tokens
    misfit = f"exists({tokens}, {item} -> {item} IS NOT NULL AND ({value}) IS NULL)"
    return f"CASE WHEN NOT {misfit} THEN transform({tokens}, {item} -> {value}) END"
