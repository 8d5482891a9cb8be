"""Columns declared `nullable: false`: a change that carries a null for one is a dead letter."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.names import quote
from lakehouse.table import Table
from silver.contract import UPSERT


def without_nulls(changes: DataFrame, table: Table) -> DataFrame:
    """The decoded changes, upserts with such a null given the reason `bad_value`.

    What a change does not carry is no null. Keys need no rule: a null key is `no_key` anyway.
    """
    names = [
        n for n, column in table.columns.items() if not column.nullable and n not in table.keys
    ]
    found = [_found(name) for name in names if name in changes.columns]
    if not found:
        return changes
    judged = changes.withColumn("__null", F.when(_open(), F.coalesce(*found)))
    said = F.concat("__null", F.lit(": found null, expected a value (nullable: false)"))
    bad = F.col("__null").isNotNull()
    return judged.withColumns(
        {
            "_operation": F.when(~bad, F.col("_operation")),
            "_absent": F.when(~bad, F.col("_absent")),
            "_reason": F.when(bad, "bad_value").otherwise(F.col("_reason")),
            "_message": F.when(bad, said).otherwise(F.col("_message")),
        }
    ).drop("__null")


def _open() -> Column:
    return (F.col("_operation") == UPSERT) & F.col("_reason").isNull()


def _found(name: str) -> Column:
    absent = F.coalesce(F.array_contains("_absent", name), F.lit(False))
    return F.when(F.col(quote(name)).isNull() & ~absent, F.lit(f"column {name}"))
