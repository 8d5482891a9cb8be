"""MERGEs whose source is a fold, with the counts of that fold.

The counts are observed while the source is computed, and a MERGE may compute its source more than
once. A local Spark is configured not to (`materializeSource: all`); if it does, the number of rows
that the MERGE wrote shows by which factor the counts are too high. No other Spark can be configured
so. There the folded rows are written to a table of their own first, `silver.T_folded`: a write
computes its rows once.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from lakehouse.storage.lake import LakeTable
from lakehouse.storage.statements import execute_with_rows
from silver.changelog.batch import Batch, Reach
from silver.contract import LayerColumn
from silver.decode.expressions.names import grouped_columns
from silver.fold.arrow import FoldPlan
from silver.fold.rules import FoldRules
from silver.fold.spark import Counts, Observed
from silver.run import SilverTable
from silver.storage import layout
from silver.storage.row_columns import to_all

FOLDED = "_folded"
"""The suffix of the table that folded rows are written to before a MERGE."""
_LARGE_BATCH = 200_000


def build_plan(
    batch: Batch, values: Sequence[str], tracked: Sequence[str] = (), history: bool = False
) -> FoldPlan:
    """How a batch is folded into a table with these value columns."""
    table = batch.table.config
    rules = FoldRules(
        columns=tuple(values),
        grouped=tuple(c for c in grouped_columns(table) if c in values),
        tracked=tuple(tracked),
        cutoffs=tuple(batch.cutoffs),
        from_log=batch.reach is not Reach.NEW,
        keeps_deleted=table.on_delete == "flag",
    )
    return FoldPlan(rules, tuple(table.keys), history)


def merge_and_count(
    batch: Batch, layer: tuple[LayerColumn, ...], text: str, written: Observed
) -> Counts:
    """Runs a MERGE whose source `{rows}` are folded rows of a batch.

    `layer` are the columns of silver's own that the rows have.

    Returns:
        What the fold counted.
    """
    spark, rows = batch.table.spark, written.rows
    if batch.table.target.kind != "local":
        rows = _stage_rows(batch.table, layer, rows)
        execute_with_rows(spark, text, to_all(rows, batch.few)).collect()
        return written.counts
    result = execute_with_rows(spark, text, to_all(rows, batch.few)).collect()
    return correct_counts(written.counts, result[0].asDict())


def correct_counts(counts: Counts, result: Mapping[str, Any]) -> Counts:
    """The counts for one evaluation of the source; `result` is the row that the MERGE returned."""
    rows = int(result["num_updated_rows"]) + int(result["num_inserted_rows"])
    times = counts.rows // rows if rows else 1
    return counts.divided(times) if times > 1 and times * rows == counts.rows else counts


def choose_file_count(batch: Batch) -> int | None:
    """Into how many files the changes of a batch are written; None where Spark decides.

    A later MERGE into a large table is faster where the table has several files per core.
    """
    if batch.table.target.kind != "local" or batch.size < _LARGE_BATCH:
        return None
    return 2 * (os.cpu_count() or 1)


def _stage_rows(table: SilverTable, layer: tuple[LayerColumn, ...], rows: DataFrame) -> DataFrame:
    """Writes the rows to a table of their own; returns them as read from it."""
    staged = LakeTable(table.lake, "silver", f"{table.kept.table}{FOLDED}")
    layout.ensure_table(staged, layout.list_source_fields(rows.schema), layer)
    layout.load_rows(staged, rows, anew=True)
    return staged.read().select(*rows.columns)
