"""Deletes that full snapshot files imply and that wait: a line of their date cannot be read."""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger


def waiting_deletes(
    spark: SparkSession, target: Target, tables: Sequence[Table]
) -> dict[str, list[str]]:
    """By table, a sentence for each date whose deletes wait."""
    asked = [table.table for table in tables if table.format == "snapshot"]
    if not asked:
        return {}
    states = ledger.read_states(spark, target)
    days = {t: json.loads(states[t]).get("days", []) for t in asked if t in states}
    return {table: _of(of) for table, of in days.items()}


def _of(days: Sequence[dict[str, Any]]) -> list[str]:
    waiting = [day for day in days if day.get("unread_lines")]
    return [
        f"the deletes of {day['effective_date']} wait, as {day['unread_lines']:,} lines of its"
        " files cannot be read; do: drop the file again, repaired, or mend the configuration and"
        " `lakehouse dead-letters replay`"
        for day in sorted(waiting, key=lambda day: str(day["effective_date"]))
    ]
