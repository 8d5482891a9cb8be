"""Gaps that silver finds: closed by a new full snapshot, or failures of their tables."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import gaps
from lakehouse.run.ledger import Entry
from lakehouse.storage.names import literal
from silver.state.table_state import read_states


def check_gaps(
    spark: SparkSession, target: Target, tables: Sequence[Table], entries: Sequence[Entry]
) -> list[Entry]:
    """Closes gaps as `close_gaps` does; returns the entries, failed where positions run backwards.

    Not those of tables with `on_data_loss: continue`. The records are applied in any case.
    """
    close_gaps(spark, target, tables)
    left = [gap for gap in gaps.open_gaps(spark, target) if gap.kind == "positions"]
    fails = gaps.list_strict(tables)
    return [gaps.with_loss(entry, left) if entry.table in fails else entry for entry in entries]


def close_gaps(spark: SparkSession, target: Target, tables: Sequence[Table]) -> None:
    """Closes every open gap that a complete snapshot of its table has come after.

    A snapshot comes after a gap when it began, by the source's clock, after the gap was found.
    """
    lacking = {gap.table for gap in gaps.open_gaps(spark, target)} & {t.table for t in tables}
    if not lacking:
        return
    states = read_states(spark, target)
    for table in sorted(lacking & set(states)):
        epochs = states[table].whole.epochs
        begun = [epoch.started for epoch in epochs if epoch.complete and epoch.started]
        if begun:
            later = f"unix_micros(found_at) < {max(begun)}"
            gaps.close_gaps(spark, target, f"`table` = {literal(table)} AND {later}")
