"""Deletes that full snapshot files imply and that wait: a line of their date cannot be read."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names


def waiting_deletes(
    spark: SparkSession, target: Target, tables: Sequence[Table]
) -> dict[str, list[str]]:
    """By table, a sentence for each date whose deletes wait."""
    extracts = {t.table: f"{t.table}_extracts" for t in tables if t.format == "snapshot"}
    there = {t: e for t, e in extracts.items() if names.exists(spark, target, "silver", e)}
    return {table: _of(spark, names.name(target, "silver", e)) for table, e in there.items()}


def _of(spark: SparkSession, extracts: str) -> list[str]:
    rows = spark.table(extracts).where("unread_lines > 0").orderBy("effective_date")
    return [
        f"the deletes of {row['effective_date']} wait, as {row['unread_lines']:,} lines of its"
        " files cannot be read; do: drop the file again, repaired, or mend the configuration and"
        " `lakehouse dead-letters replay`"
        for row in rows.collect()
    ]
