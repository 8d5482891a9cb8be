"""Types of columns: their names, how they widen, and what carries them in Arrow; without a JVM."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import types as T

from lakehouse.config.column_types import ColumnType, read_type

BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""White space and control characters: around a number, a boolean or a time they do not count."""

_PLAIN: Mapping[str, T.DataType] = {
    type.typeName(): type
    for type in (
        *(T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType()),
        *(T.DoubleType(), T.BooleanType(), T.BinaryType(), T.StringType(), T.DateType()),
        *(T.TimestampType(), T.TimestampNTZType(), T.VariantType()),
    )
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
_WHOLE: tuple[type[T.DataType], ...] = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FLOATING: tuple[type[T.DataType], ...] = (T.FloatType, T.DoubleType)
_MOST_DIGITS = 38


class Misfit(ValueError):
    """A value that its column's type cannot hold as it is."""


def parse_type(text: str) -> T.DataType:
    """The type that a text names, such as `DECIMAL(12, 2)` or `array<struct<a: int>>`.

    Raises:
        ValueError: the text names no type of a column.
    """
    return _spark_type(read_type(text))


def _spark_type(type: ColumnType) -> T.DataType:
    inner = [_spark_type(each) for each in type.inner]
    if type.name == "decimal":
        return T.DecimalType(*type.digits)
    if type.name == "array":
        return T.ArrayType(inner[0])
    if type.name == "map":
        return T.MapType(inner[0], inner[1])
    if type.name == "struct":
        return T.StructType(
            [T.StructField(*field) for field in zip(type.fields, inner, strict=True)]
        )
    return _PLAIN[type.name]


def wider_type(one: T.DataType, other: T.DataType) -> T.DataType | None:
    """The type of the same kind that holds both without loss; None when there is none."""
    for kind in (_WHOLE, _FLOATING):
        if isinstance(one, kind) and isinstance(other, kind):
            return max(one, other, key=lambda each: kind.index(type(each)))
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        element = wider_type(one.elementType, other.elementType)
        return element and T.ArrayType(element)
    if isinstance(one, T.DecimalType) and isinstance(other, T.DecimalType):
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return T.DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None
    return one if one == other else None


def can_widen(old: T.DataType, new: T.DataType) -> bool:
    """Whether a column of the type `old` grows to `new` by Delta type widening."""
    return old != new and not isinstance(new, T.ArrayType) and wider_type(old, new) == new


def arrow_type(type: T.DataType) -> pa.DataType:
    """The Arrow type of a Spark type.

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


def carrier_type(type: T.DataType) -> T.DataType:
    """The type in which values leave a function: their own, or JSON text where Arrow has none."""
    try:
        arrow_type(type)
    except TypeError:
        return T.StringType()
    return type
