"""Columns of rows whatever their names, rows of some keys, and the digest of a change."""

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage import names
from silver.contract import UPSERT

FEW = 1_000_000
"""Rows of which every task can hold the keys: 100 MB or so."""


def column(name: str) -> Column:
    """The column of exactly this name, whatever characters it has."""
    return F.col(names.quote(name))


def hash_change(columns: list[str]) -> Column:
    """A 64-bit hash of what the change carries; nulls of different columns do not cancel out."""
    values = [F.to_json(F.struct(*[column(c) for c in columns]))] if columns else []
    return F.xxhash64(F.col("_operation"), F.to_json("_absent"), *values)


def has_key(table: Table) -> Column:
    """Whether the key of a dead letter could be read.

    Where every part may be null, one that is null throughout is none.
    """
    needed = [column(k).isNotNull() for k in table.keys if k not in table.nullable_keys]
    return all_of(needed) if needed else F.coalesce(*map(_mark_present, table.keys)).isNotNull()


def _mark_present(name: str) -> Column:
    return F.when(column(name).isNotNull(), True)


def all_of(conditions: list[Column]) -> Column:
    """The conjunction of conditions; true when there are none."""
    return reduce(and_, conditions, F.lit(True))


def to_all(rows: DataFrame, few: bool) -> DataFrame:
    """The rows, sent to every task where they are few."""
    return F.broadcast(rows) if few else rows


def of_keys(rows: DataFrame, keys: DataFrame, table: Table, how: str = "left_semi") -> DataFrame:
    """The rows of some keys, or with `left_anti` those of all others; a null equals a null."""
    if not table.nullable_keys:
        return rows.join(keys, table.keys, how)
    renamed = {key: f"__k{at}" for at, key in enumerate(table.keys)}
    same = [column(k).eqNullSafe(F.col(n)) for k, n in renamed.items()]
    others = keys.select(*[column(k).alias(n) for k, n in renamed.items()])
    return rows.join(others, all_of(same), how)


def absent_before(late: Mapping[str, int], operation: Column, absent: Column) -> Column:
    """What rows with a `_batch` do not carry: `absent`, and the columns that came after that."""
    unknown = [F.when(F.col("_batch") < batch, F.lit(name)) for name, batch in late.items()]
    given = F.coalesce(absent, F.array().cast("array<string>"))
    all_absent = F.array_union(given, F.array_compact(F.array(*unknown)))
    return F.when((operation == UPSERT) & (F.size(all_absent) > 0), all_absent)
