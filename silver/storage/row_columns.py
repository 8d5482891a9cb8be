"""Columns of rows whatever their names, and the digest of a change."""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage import names


def column(name: str) -> Column:
    """The column of exactly this name, whatever characters it has."""
    return F.col(names.quote(name))


def digest(columns: list[str]) -> Column:
    """A 64-bit hash of what the change carries; nulls of different columns do not cancel out."""
    values = [F.to_json(F.struct(*[column(c) for c in columns]))] if columns else []
    return F.xxhash64(F.col("_operation"), F.to_json("_absent"), *values)


def has_key(table: Table) -> Column:
    """Whether the key of a dead letter could be read.

    Where every part may be null, one that is null throughout is none.
    """
    needed = [column(k).isNotNull() for k in table.keys if k not in table.nullable_keys]
    return all_of(needed) if needed else F.coalesce(*map(_there, table.keys)).isNotNull()


def _there(name: str) -> Column:
    return F.when(column(name).isNotNull(), True)


def all_of(conditions: list[Column]) -> Column:
    """The conjunction of conditions; true when there are none."""
    return reduce(lambda left, right: left & right, conditions, F.lit(True))
