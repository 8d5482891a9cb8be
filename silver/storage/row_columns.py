"""Columns by name, rows of some keys, and the digest of a change."""

import hashlib
from collections.abc import Collection, Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.words import EXACT_TIMES
from silver.contract import UPSERT

FEW = 1_000_000
"""Up to so many rows, each task can hold their keys: about 100 MB."""


def column(name: str) -> Column:
    """The column of exactly this name, whatever characters it has."""
    return F.col(names.quote(name))


def hash_change(schema: T.StructType, columns: Collection[str]) -> Column:
    """A 64-bit hash of what a change of this schema carries in the columns.

    A null counts as if the column were not there, and a wider type of whole numbers or floats, or
    another order of the columns, changes no digest. The columns that a change does not carry count:
    one that comes later, to a format whose rows leave columns out, changes the digest of such rows.
    """
    values = [F.col("_operation"), F.to_json("_absent")]
    for field in sorted((schema[name] for name in columns), key=lambda field: field.name):
        value, mark = column(field.name), hashlib.blake2b(field.name.encode(), digest_size=8)
        number = int.from_bytes(mark.digest(), "big", signed=True)
        values += [F.when(value.isNotNull(), F.lit(number)), _hash_form(value, field.dataType)]
    return F.xxhash64(*values)


def _hash_form(value: Column, type: T.DataType) -> Column:
    """The value in a type that stays the same when the column's is widened."""
    if isinstance(type, T.IntegralType):
        return value.cast("bigint")
    if isinstance(type, T.FractionalType):
        return value.cast("string")
    if isinstance(type, (T.ArrayType, T.MapType, T.StructType, T.VariantType)):
        return F.when(value.isNotNull(), F.to_json(F.struct(value.alias("_")), EXACT_TIMES))
    return value


def has_key(table: Table) -> Column:
    """Whether the key of a dead letter could be read.

    Where every part may be null, a key of nulls only counts as not read.
    """
    needed = [column(k).isNotNull() for k in table.keys if k not in table.nullable_keys]
    return all_of(needed) if needed else F.coalesce(*map(_mark_present, table.keys)).isNotNull()


def _mark_present(name: str) -> Column:
    return F.when(column(name).isNotNull(), True)


def all_of(conditions: list[Column]) -> Column:
    """The conjunction of conditions; true when there are none."""
    return reduce(and_, conditions, F.lit(True))


def to_all(rows: DataFrame, few: bool) -> DataFrame:
    """The rows, broadcast where they are few."""
    return F.broadcast(rows) if few else rows


def of_keys(rows: DataFrame, keys: DataFrame, table: Table, how: str = "left_semi") -> DataFrame:
    """The rows of some keys, or with `left_anti` of all others; null keys are equal."""
    if not table.nullable_keys:
        return rows.join(keys, table.keys, how)
    renamed = {key: f"__k{at}" for at, key in enumerate(table.keys)}
    same = [column(k).eqNullSafe(F.col(n)) for k, n in renamed.items()]
    others = keys.select(*[column(k).alias(n) for k, n in renamed.items()])
    return rows.join(others, all_of(same), how)


def absent_before(late: Mapping[str, int], operation: Column, absent: Column) -> Column:
    """The columns that a row does not carry: `absent`, and those that came after its `_batch`."""
    unknown = [F.when(F.col("_batch") < batch, F.lit(name)) for name, batch in late.items()]
    given = F.coalesce(absent, F.array().cast("array<string>"))
    all_absent = F.array_union(given, F.array_compact(F.array(*unknown)))
    return F.when((operation == UPSERT) & (F.size(all_absent) > 0), all_absent)
