"""Records that no table reads, over all runs, from the ledger."""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.unread import UNREAD, Unread, unread


def unread_records(spark: SparkSession, target: Target, tables: Sequence[Table]) -> list[Unread]:
    """What no table reads of the feeds that tables share; `tables` are all that are configured."""
    bronze = ledger.read(spark, target).where("layer = 'bronze'")
    counts = bronze.select("table", F.explode("counts").alias("name", "n"))
    own = counts.where(F.substring_index("name", ":", 1) == UNREAD)
    sums = own.groupBy("table", "name").agg(F.sum("n").alias("n")).orderBy("table", "name")
    return unread([(row["table"], row["name"], row["n"]) for row in sums.collect()], tables)


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
