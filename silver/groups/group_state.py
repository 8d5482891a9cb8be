"""What a consistency group's state says of log rows, and the versions that gold shows together.

The state of a group stands in the states of its members (`silver.state.table_state.GroupState`), so
that a run keeps it in the same commit as what the members have applied.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from silver.groups.transactions import unit
from silver.state.table_state import Waiting


def versions_of(spark: SparkSession, target: Target, members: Sequence[Table]) -> dict[str, int]:
    """The Delta version that each member's table has now."""
    found: dict[str, int] = {}
    for table in members:
        kept = f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table
        if names.exists(spark, target, "silver", kept):
            shown = spark.sql(f"DESCRIBE HISTORY {names.name(target, 'silver', kept)} LIMIT 1")
            found[kept] = int(shown.collect()[0]["version"])
    return found


def held_back(spark: SparkSession, waiting: Sequence[Waiting], rows: DataFrame) -> DataFrame:
    """Log rows of the transactions that wait."""
    named = _named(spark, waiting)
    return rows.withColumn("_unit", unit()).join(named, "_unit", "left_semi").drop("_unit")


def let_through(spark: SparkSession, waiting: Sequence[Waiting], rows: DataFrame) -> DataFrame:
    """Log rows of all but the transactions that wait."""
    if not waiting:
        return rows
    named = _named(spark, waiting)
    return rows.withColumn("_unit", unit()).join(named, "_unit", "left_anti").drop("_unit")


def _named(spark: SparkSession, waiting: Sequence[Waiting]) -> DataFrame:
    found = [{"_unit": each.transaction} for each in waiting]
    return F.broadcast(local_rows(spark, found, "_unit string"))
