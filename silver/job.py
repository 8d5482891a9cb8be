"""Silver's job: ends rebuilds that were killed while they swapped, then runs every table."""

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver.maintenance import swap
from silver.run import Progress, Run
from silver.table_runs import run_tables


def apply(
    spark: SparkSession,
    target: Target,
    tables: list[Table],
    run_id: str,
    progress: Progress,
    memory: Memory | None = None,
) -> list[Entry]:
    """Brings every table up to what bronze holds.

    One ledger entry each, and a failure stops no other. `memory` is the run's, where it has one.
    """
    run = Run(run_id, progress, memory or Memory())
    for table in swap.end_all(spark, target, tables):
        run.memory.tables.pop(table, None)
    return run_tables(run, Lake(spark, target), tables)


def apply_all(
    spark: SparkSession, target: Target, tables: list[Table], run_id: str, progress: Progress
) -> list[Entry]:
    """Brings every table up to what bronze holds, and merges all pending changes."""
    memory = Memory()
    memory.merge_all = True
    return apply(spark, target, tables, run_id, progress, memory)
