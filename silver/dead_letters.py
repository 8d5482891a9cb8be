"""`silver.T_dead_letters`: what could not be applied, with its raw record, place and reason.

A dead letter is identified by its order of arrival: writing the same one again adds nothing.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout
from silver.compact import column
from silver.contract import DEAD_LETTER_COLUMNS
from silver.statements import execute


def record(spark: SparkSession, target: Target, table: Table, rows: DataFrame, run_id: str) -> None:
    """Adds the rejected rows of a part of the log to the table's dead letters.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        rows: rows of the change log with a `_reason`.
        run_id: the run that rejected them.
    """
    name = ensure(spark, target, table)
    letters = rows.where("_reason IS NOT NULL").select(
        F.col("_reason").alias("reason"),
        F.col("_message").alias("message"),
        F.col("_rule").alias("rule"),
        F.col("_raw").alias("raw"),
        F.col("_position").alias("position"),
        F.lit(run_id).alias("run_id"),
        F.current_timestamp().alias("at"),
        F.lit(None).cast("timestamp").alias("resolved_at"),
        F.lit(None).cast("string").alias("resolved_by"),
        F.to_json(F.struct(*[column(k) for k in table.keys])).alias("_key"),
        "_sequence",
        "_arrival",
        "_batch",
    )
    text = f"MERGE INTO {name} t USING {{rows}} s ON t._arrival = s._arrival"
    execute(spark, f"{text} WHEN NOT MATCHED THEN INSERT *", letters)


def ensure(spark: SparkSession, target: Target, table: Table) -> str:
    """Creates the dead letter table of a table when it is missing; returns its SQL name."""
    name, _ = layout.ensure(spark, target, f"{table.table}_dead_letters", [], DEAD_LETTER_COLUMNS)
    return name
