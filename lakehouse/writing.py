"""Rows into a Delta table in one commit: the one place where a DataFrame is written to one.

They go by the names of their columns and get the columns' types; a value that does not fit fails.
Without a catalog they are written by path: by name Delta has Spark plan the query and then plans it
once more for itself, which takes longer than to write what a small batch holds.
"""

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.names import location, name, quote
from lakehouse.target import Layer, Target

Options = Mapping[str, str]
NO_OPTIONS: Options = MappingProxyType({})


def append(
    spark: SparkSession,
    target: Target,
    layer: Layer,
    table: str,
    rows: DataFrame,
    options: Options = NO_OPTIONS,
) -> None:
    """Adds rows to a table that is there; `options` are Delta's, such as `txnAppId`."""
    folder = location(target, layer, table)
    if folder is None:
        rows.writeTo(name(target, layer, table)).options(**options).append()
        return
    fitting = _typed(rows, spark.table(name(target, layer, table)))
    fitting.write.format("delta").mode("append").options(**options).save(folder)


def replace(spark: SparkSession, target: Target, layer: Layer, table: str, rows: DataFrame) -> None:
    """Puts rows in place of all that a table holds; its columns and properties stay."""
    folder = location(target, layer, table)
    if folder is None:
        rows.writeTo(name(target, layer, table)).overwrite(F.lit(True))
        return
    fitting = _typed(rows, spark.table(name(target, layer, table)))
    fitting.write.format("delta").mode("overwrite").save(folder)


def _typed(rows: DataFrame, table: DataFrame) -> DataFrame:
    types = {field.name.lower(): field.dataType for field in table.schema.fields}
    other = {
        field.name: F.col(quote(field.name)).cast(types[field.name.lower()])
        for field in rows.schema.fields
        if types.get(field.name.lower(), field.dataType) != field.dataType
    }
    return rows.withColumns(other) if other else rows
