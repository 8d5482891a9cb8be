"""MERGEs that tell what they did: the counts of the fold that their source is.

The counts are observed while the source is computed. A MERGE may compute its source more than once:
a local Spark is told not to (`materializeSource: all`), and the number of rows that the MERGE wrote
shows by which factor the counts are too high, should it have done so. No other Spark can be told.
There the folded rows are written to a table of their own first, `silver.T_folded`: a write computes
its rows once.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from lakehouse.config.target import Target
from lakehouse.storage.writing import replace
from silver.contract import LayerColumn
from silver.fold.spark import Counts, Observed
from silver.state.batch import to_all
from silver.storage import layout
from silver.storage.statements import execute

FOLDED = "_folded"
"""What the name ends in of the table that folded rows are written to before a MERGE."""
_MANY = 200_000


class Into(NamedTuple):
    """The table that rows are merged into, its layer columns, and whether the rows are few."""

    table: str
    layer: tuple[LayerColumn, ...]
    few: bool


def merge(spark: SparkSession, target: Target, into: Into, text: str, written: Observed) -> Counts:
    """Runs a MERGE whose source `{rows}` are folded rows.

    Returns:
        What the fold counted.
    """
    if target.kind != "local":
        rows = _staged(spark, target, into, written.rows)
        execute(spark, text, to_all(rows, into.few)).collect()
        return written.counts
    result = execute(spark, text, to_all(written.rows, into.few)).collect()
    return confirmed(written.counts, result[0].asDict())


def confirmed(counts: Counts, result: Mapping[str, Any]) -> Counts:
    """The counts of one evaluation of the source, by the numbers that the MERGE returned."""
    rows = int(result["num_updated_rows"]) + int(result["num_inserted_rows"])
    times = counts.rows // rows if rows else 1
    return counts.divided(times) if times > 1 and times * rows == counts.rows else counts


def partitions(target: Target, size: int | None) -> int | None:
    """Into how many files so many changes are written; None where Spark decides.

    A later MERGE into a large table is faster where the table has several files per core.
    """
    if target.kind != "local" or size is None or size < _MANY:
        return None
    return 2 * (os.cpu_count() or 1)


def _staged(spark: SparkSession, target: Target, into: Into, rows: DataFrame) -> DataFrame:
    name, fields = f"{into.table}{FOLDED}", layout.business(rows.schema)
    place, _ = layout.ensure(spark, target, name, fields, into.layer)
    replace(spark, target, "silver", name, rows)
    return spark.table(place).select(*rows.columns)
