"""Gaps that a new full snapshot has made needless: the table is whole again."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakehouse import gaps
from lakehouse.names import literal
from lakehouse.table import Table
from lakehouse.target import Target
from silver.state import snapshots


def close_gaps(spark: SparkSession, target: Target, tables: Sequence[Table]) -> None:
    """Closes every open gap that a complete snapshot of its table has come after.

    A snapshot comes after a gap when it began, by the source's clock, after the gap was found.
    """
    lacking = {gap.table for gap in gaps.still_open(spark, target)} & {t.table for t in tables}
    if not lacking:
        return
    known = snapshots.read(spark, target)
    for table in sorted(lacking & set(known)):
        begun = [epoch.started for epoch in known[table].epochs if epoch.complete and epoch.started]
        if begun:
            later = f"unix_micros(found_at) < {max(begun)}"
            gaps.close(spark, target, f"`table` = {literal(table)} AND {later}")
