"""A value's JSON token as a value of the column's type: null when it does not fit, never an error."""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver import debezium_moments as moments
from silver import debezium_numbers as numbers
from silver.debezium_encoding import Encoding


def converted(token: Column, encoding: Encoding, type: T.DataType, sourced: Column) -> Column:
    """The value of a token.

    Args:
        token: the JSON value as text; text values without their quotes.
        encoding: what the token stands for.
        type: the column's type; where it is not the encoding's own, the value is cast if it fits.
        sourced: whether the record has a source block. One without is not Debezium's own JSON, and its
            numbers are plain.

    Returns:
        The value; null for a null token and for one that does not fit.
    """
    if isinstance(type, T.StringType):
        return _text(token, encoding, sourced).cast(type)
    if isinstance(type, T.NumericType):
        return _number(token, encoding, type, sourced)
    if isinstance(type, T.DateType):
        return _date(token, encoding)
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        return _timestamp(token, encoding, type)
    if isinstance(type, T.BinaryType):
        return _binary(token, encoding)
    if isinstance(type, T.ArrayType):
        return _array(token, encoding, type, sourced)
    if isinstance(type, T.BooleanType):
        return token.try_cast("boolean")
    return F.from_json(token, type.simpleString())


def _text(token: Column, encoding: Encoding, sourced: Column) -> Column:
    if encoding.kind in ("decimal", "variable", "precise"):
        return _number_text(token, encoding, sourced)
    if encoding.kind == "loose":
        return F.when(numbers.is_variable(token), numbers.variable_text(token)).otherwise(token)
    if encoding.kind == "date":
        return moments.date(token).cast("string")
    if encoding.kind == "time":
        return moments.time_text(token, encoding.unit)
    if encoding.kind == "timestamp" and encoding.type == "timestamp_ntz":
        return moments.timestamp(token, encoding.unit, zoned=False).cast("string")
    return token


def _number(token: Column, encoding: Encoding, type: T.NumericType, sourced: Column) -> Column:
    text = _number_text(token, encoding, sourced)
    value = text.try_cast(type)
    if not isinstance(type, T.DecimalType) or encoding.scale == type.scale:
        return value
    return (
        F.when(value == text.try_cast(f"decimal(38,{encoding.scale})"), value)
        if _rounds(encoding, type)
        else value
    )


def _rounds(encoding: Encoding, type: T.DecimalType) -> bool:
    return encoding.kind == "decimal" and encoding.scale > type.scale


def _number_text(token: Column, encoding: Encoding, sourced: Column) -> Column:
    if encoding.kind == "decimal":
        return numbers.scaled_text(token, encoding.scale)
    if encoding.kind == "variable":
        return numbers.variable_text(token)
    if encoding.kind != "precise":
        return token
    variable = F.when(token.startswith("{"), numbers.variable_text(token))
    if encoding.scale < 0:
        return variable.otherwise(token)
    packed = sourced & numbers.is_base64(token)
    return variable.when(packed, numbers.scaled_text(token, encoding.scale)).otherwise(token)


def _date(token: Column, encoding: Encoding) -> Column:
    if encoding.kind == "timestamp":
        return moments.timestamp(token, encoding.unit, zoned=False).cast("date")
    return moments.date(token)


def _timestamp(token: Column, encoding: Encoding, type: T.DataType) -> Column:
    zoned = isinstance(type, T.TimestampType)
    if encoding.kind == "date":
        return moments.date(token).cast(type)
    return moments.timestamp(token, encoding.unit, zoned)


def _binary(token: Column, encoding: Encoding) -> Column:
    if encoding.kind == "hex":
        return F.try_to_binary(token, F.lit("hex"))
    if encoding.kind == "base64url":
        return F.try_to_binary(F.translate(token, "-_", "+/"), F.lit("base64"))
    return F.try_to_binary(token, F.lit("base64"))


def _array(token: Column, encoding: Encoding, type: T.ArrayType, sourced: Column) -> Column:
    items = encoding.items or Encoding("plain", type.elementType.simpleString())
    tokens = F.from_json(token, "array<string>")
    pairs = F.transform(
        tokens,
        lambda item: F.struct(
            item.alias("token"), converted(item, items, type.elementType, sourced).alias("value")
        ),
    )
    misfit = F.exists(pairs, lambda p: p["token"].isNotNull() & p["value"].isNull())
    values = F.transform(pairs, lambda p: p["value"])
    plain = isinstance(type.elementType, T.StringType) and items.kind in ("plain", "json")
    return tokens if plain else F.when(~misfit, values)
