"""Silver's tables to maintain, and the layout of the files of each."""

from pyspark.sql import SparkSession

from lakehouse.config.loading import SUFFIXES
from lakehouse.config.table import Table
from lakehouse.run import gaps, ledger
from lakehouse.storage.lake import Lake
from lakehouse.storage.upkeep import NO_LAYOUT, Layout
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, TRANSACTIONS
from silver.storage import layout

SORTED_BY = {"_history": "_valid_to"}
"""Queries as of a time skip the versions that had ended before."""
OF_ALL = (ledger.TABLE, gaps.TABLE, TRANSACTIONS)
_STATISTICS = {"": CURRENT_COLUMNS, "_history": HISTORY_COLUMNS}


def of_table(lake: Lake, table: Table) -> dict[str, Layout]:
    """SQL names of the table's silver tables, each with the layout of its files."""
    there = [s for s in ("", *SUFFIXES) if lake.exists("silver", f"{table.table}{s}")]
    named = {s: lake.name("silver", f"{table.table}{s}") for s in there}
    return {name: _build_layout(lake.spark, name, suffix, table) for suffix, name in named.items()}


def of_all(lake: Lake) -> dict[str, Layout]:
    """SQL names of the tables that are not of one table only."""
    there = (name for name in OF_ALL if lake.exists("silver", name))
    return dict.fromkeys((lake.name("silver", name) for name in there), NO_LAYOUT)


def _build_layout(spark: SparkSession, name: str, suffix: str, table: Table) -> Layout:
    """The layout by which a reader's filter skips files, of the tables that gold shows."""
    layer = _STATISTICS.get(suffix)
    if layer is None or not table.keys:
        return NO_LAYOUT
    fields = layout.list_source_fields(spark.table(name).schema)
    clusters = layout.clustered_by(fields, table)
    sorted_by = None if clusters else SORTED_BY.get(suffix)
    return Layout(clusters, sorted_by, layout.list_statistics_columns(fields, layer, table))
