"""Types of columns: their names, how they widen, and what carries them in Arrow; without a JVM."""

import re
from collections.abc import Mapping

import pyarrow as pa
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
CONNECT_TYPES: Mapping[str, T.DataType] = {
    "int8": T.ByteType(),
    "int16": T.ShortType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "float": T.FloatType(),
    "float32": T.FloatType(),
    "double": T.DoubleType(),
    "float64": T.DoubleType(),
    "boolean": T.BooleanType(),
    "string": T.StringType(),
    "bytes": T.BinaryType(),
}
"""The types of Kafka Connect's schema blocks, and of Avro's, as columns have them."""
_ARROW: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
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


def widens(old: T.DataType, new: T.DataType) -> bool:
    """Whether a column of the type `old` grows to `new` by Delta type widening."""
    return old != new and not isinstance(new, T.ArrayType) and wider(old, new) == new


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


def arrow_type(type: T.DataType) -> pa.DataType:
    """The Arrow type of a Spark type that `is_carried`.

    Raises:
        TypeError: no Arrow type carries it.
    """
    if isinstance(type, T.StringType):
        return pa.string()
    if isinstance(type, T.DecimalType):
        return pa.decimal128(type.precision, type.scale)
    if isinstance(type, T.ArrayType):
        return pa.list_(pa.field("element", arrow_type(type.elementType)))
    if isinstance(type, T.MapType):
        key = pa.field("key", arrow_type(type.keyType), nullable=False)
        return pa.map_(key, pa.field("value", arrow_type(type.valueType)))
    if isinstance(type, T.StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.dataType)) for f in type.fields])
    for plain, arrow in _ARROW.items():
        if isinstance(type, plain):
            return arrow
    raise TypeError(f"no Arrow type carries {type.simpleString()}")


def is_carried(type: T.DataType) -> bool:
    """Whether Arrow carries values of the type; others leave a function as JSON text."""
    try:
        arrow_type(type)
    except TypeError:
        return False
    return True


def carrier(type: T.DataType) -> T.DataType:
    """The Spark type in which values of a column leave a function: its own, or text."""
    return type if is_carried(type) else T.StringType()
