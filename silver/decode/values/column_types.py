"""Spark SQL types of columns: read from text, and widened, without a JVM; values that misfit."""

import re

from pyspark.sql import types as T

BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""White space and control characters: around a number, a boolean or a time they do not count."""

_PLAIN: dict[str, T.DataType] = {
    "tinyint": T.ByteType(),
    "byte": T.ByteType(),
    "smallint": T.ShortType(),
    "short": T.ShortType(),
    "int": T.IntegerType(),
    "integer": T.IntegerType(),
    "bigint": T.LongType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "real": T.FloatType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
    "binary": T.BinaryType(),
    "string": T.StringType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ltz": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "variant": T.VariantType(),
    "decimal": T.DecimalType(10, 0),
    "dec": T.DecimalType(10, 0),
    "numeric": T.DecimalType(10, 0),
}
_SIZED = re.compile(r"(?:char|varchar)\s*\(\s*\d+\s*\)", re.IGNORECASE)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL | re.IGNORECASE)
_FIELD = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*(?::|\s)\s*(.+)", re.DOTALL)
_WHOLE: tuple[type[T.DataType], ...] = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FLOATING: tuple[type[T.DataType], ...] = (T.FloatType, T.DoubleType)
_MOST_DIGITS = 38


class Misfit(ValueError):
    """A value that its column's type cannot hold as it is."""


def parse_type(text: str) -> T.DataType:
    """The type that a text such as `DECIMAL(12, 2)` or `array<struct<a: int>>` names.

    `char` and `varchar` are strings, as Spark reads them from a table.

    Raises:
        ValueError: the text names no type of a column.
    """
    written = text.strip()
    plain = _PLAIN.get(written.lower())
    if plain is not None:
        return plain
    if _SIZED.fullmatch(written):
        return T.StringType()
    decimal = _DECIMAL.fullmatch(written)
    if decimal:
        return T.DecimalType(int(decimal[1]), int(decimal[2] or 0))
    nested = _NESTED.fullmatch(written)
    if nested:
        return _nested(nested[1].lower(), _split(nested[2]))
    raise ValueError(f"found {text!r}, expected a Spark SQL type")


def wider(one: T.DataType, other: T.DataType) -> T.DataType | None:
    """The type of the same kind that holds both without loss; None when there is none."""
    for kind in (_WHOLE, _FLOATING):
        if isinstance(one, kind) and isinstance(other, kind):
            return max(one, other, key=lambda each: kind.index(type(each)))
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        element = wider(one.elementType, other.elementType)
        return element and T.ArrayType(element)
    if isinstance(one, T.DecimalType) and isinstance(other, T.DecimalType):
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return T.DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None
    return one if one == other else None


def _nested(kind: str, inner: list[str]) -> T.DataType:
    if kind == "array":
        (element,) = inner
        return T.ArrayType(parse_type(element))
    if kind == "map":
        key, value = inner
        return T.MapType(parse_type(key), parse_type(value))
    return T.StructType([_field(text) for text in inner])


def _field(text: str) -> T.StructField:
    found = _FIELD.fullmatch(text)
    if found is None:
        raise ValueError(f"found {text!r}, expected a field of a struct")
    return T.StructField(found[1] or found[2], parse_type(found[3]))


def _split(text: str) -> list[str]:
    """The text cut at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
