"""The Arrow type in which values of a Spark type leave a Python function."""

import pyarrow as pa
from pyspark.sql import types as T

_PLAIN: dict[type[T.DataType], pa.DataType] = {
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
    for plain, arrow in _PLAIN.items():
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
