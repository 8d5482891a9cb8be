"""Which of silver's tables want upkeep, and how the files of each are to be."""

from pyspark.sql import SparkSession

from lakehouse.config.loading import SUFFIXES
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import gaps, ledger
from lakehouse.storage import names
from lakehouse.storage.upkeep import NO_LAYOUT, Layout
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, TRANSACTIONS
from silver.storage import layout

SORTED_BY = {"_history": "_valid_to"}
"""Who asks for a time skips the versions that had ended before."""
OF_ALL = (ledger.TABLE, gaps.TABLE, TRANSACTIONS)
_STATISTICS = {"": CURRENT_COLUMNS, "_history": HISTORY_COLUMNS}


def of_table(spark: SparkSession, target: Target, table: Table) -> dict[str, Layout]:
    """SQL names of the table's silver tables, each with how its files are to be."""
    there = [s for s in ("", *SUFFIXES) if _table_exists(spark, target, f"{table.table}{s}")]
    named = {suffix: names.name(target, "silver", f"{table.table}{suffix}") for suffix in there}
    return {name: _build_layout(spark, name, suffix, table) for suffix, name in named.items()}


def of_all(spark: SparkSession, target: Target) -> dict[str, Layout]:
    """SQL names of the tables that all share."""
    there = (name for name in OF_ALL if _table_exists(spark, target, name))
    return dict.fromkeys((names.name(target, "silver", name) for name in there), NO_LAYOUT)


def _table_exists(spark: SparkSession, target: Target, name: str) -> bool:
    return names.exists(spark, target, "silver", name)


def _build_layout(spark: SparkSession, name: str, suffix: str, table: Table) -> Layout:
    """What a reader's filter skips files by, in the tables that gold shows."""
    layer = _STATISTICS.get(suffix)
    if layer is None or not table.keys:
        return NO_LAYOUT
    fields = layout.list_source_fields(spark.table(name).schema)
    clusters = layout.clustered_by(fields, table)
    sorted_by = None if clusters else SORTED_BY.get(suffix)
    return Layout(clusters, sorted_by, layout.list_statistics_columns(fields, layer, table))
