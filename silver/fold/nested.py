"""Columns of lists and maps on their way to Python: no row's value is null; nested ones may be.

Spark (4.2) asks its Arrow writer for the size of the batch after every row. A null list or map then
costs one step for each null before it in the batch: 17 µs a row for batches of 10,000. So an empty
list or map stands for null, and a column of marks says which rows were null.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_MARK = "_was_null_"


def mark_nulls(column: Column, type: T.DataType, name: str) -> list[Column]:
    """The column `name` without null lists, and its column of marks where the type needs one.

    A null struct with lists inside becomes a struct of empty lists; other structs stay as they are.
    """
    empty = _empty_value(type)
    if empty is None:
        return [column.alias(name)]
    return [F.coalesce(column, empty).alias(name), column.isNull().alias(f"{_MARK}{name}")]


def restore_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without the columns of marks; the values that they mark are null again."""
    marked = [name for name in batch.schema.names if name.startswith(_MARK)]
    if not marked:
        return batch
    nulls = {name.removeprefix(_MARK): batch.column(name) for name in marked}
    names = [name for name in batch.schema.names if name not in marked]
    columns = [_restore_column(batch.column(name), nulls.get(name)) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _restore_column(values: pa.Array, nulls: pa.Array | None) -> pa.Array:
    if nulls is None or not nulls.true_count:
        return values
    if nulls.true_count == len(values):
        return pa.nulls(len(values), values.type)
    places = pa.array(np.arange(len(values)))
    return values.take(pc.if_else(nulls, pa.scalar(None, places.type), places))


def _empty_value(type: T.DataType) -> Column | None:
    """What stands for null: no element, or a struct of such; None for types without lists."""
    if isinstance(type, T.ArrayType):
        return F.array().cast(type)
    if isinstance(type, T.MapType):
        keys, values = T.ArrayType(type.keyType), T.ArrayType(type.valueType)
        return F.map_from_arrays(F.array().cast(keys), F.array().cast(values))
    if isinstance(type, T.StructType):
        empties = [(field, _empty_value(field.dataType)) for field in type.fields]
        if any(empty is not None for _, empty in empties):
            return F.struct(*[_struct_member(field, empty) for field, empty in empties])
    return None


def _struct_member(field: T.StructField, empty: Column | None) -> Column:
    value = F.lit(None).cast(field.dataType) if empty is None else empty
    return value.alias(field.name)
