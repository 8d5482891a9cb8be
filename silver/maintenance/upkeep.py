"""Which of silver's tables want upkeep, and in which order a large one is worth keeping."""

from pyspark.sql import SparkSession

from lakehouse.config.loading import SUFFIXES
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import gaps, ledger
from lakehouse.storage import names
from silver.contract import TRANSACTIONS

CLUSTER_BY = {"_history": "_valid_to"}
"""Who asks for a time skips the versions that had ended before."""
OF_ALL = (ledger.TABLE, gaps.TABLE, TRANSACTIONS)


def of_table(spark: SparkSession, target: Target, table: Table) -> dict[str, str | None]:
    """SQL names of the table's silver tables, each with the column a large one is ordered by."""
    named = {f"{table.table}{suffix}": CLUSTER_BY.get(suffix) for suffix in ("", *SUFFIXES)}
    return _existing(spark, target, named)


def of_all(spark: SparkSession, target: Target) -> dict[str, str | None]:
    """SQL names of the tables that all share."""
    return _existing(spark, target, dict.fromkeys(OF_ALL))


def _existing(
    spark: SparkSession, target: Target, named: dict[str, str | None]
) -> dict[str, str | None]:
    there = {n: by for n, by in named.items() if names.exists(spark, target, "silver", n)}
    return {names.name(target, "silver", n): by for n, by in there.items()}
