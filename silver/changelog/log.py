"""The change log `silver.T_changes`: every record of bronze once, decoded, in source order.

One row per bronze record, dead letters and records without a change included, so that the outcomes
of a run add up to its records. It is written while records are parsed, and all later steps read it.
"""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.run.newest import newest_batch, newest_batches
from lakehouse.spark.local_rows import as_text
from lakehouse.storage import writing
from lakehouse.storage.lake import Lake
from silver.contract import LOG_COLUMNS
from silver.run import SilverTable
from silver.state.summary import ObservedRows
from silver.storage import layout
from silver.storage.row_columns import absent_before, hash_change
from silver.storage.stages import end_stage

_PARTIAL_FORMATS = ("ydb", "bigquery", "rows")


def append_batch(table: SilverTable, changes: DataFrame, batch: int) -> ObservedRows:
    """Adds decoded and gated changes to the log as one batch, with new columns and wider types.

    Returns:
        What the tasks that decoded the batch know of it.
    """
    observed = _observe_batch(table.config, changes, batch)
    layout.ensure_table(table.log, layout.list_source_fields(changes.schema), LOG_COLUMNS, batch)
    rows = writing.cast_to(observed.rows, table.log.schema)
    writing.append_typed(table.target, "silver", table.log.table, rows)
    return observed


def rewrite_batch(table: SilverTable, changes: DataFrame, batch: int) -> ObservedRows:
    """Replaces a batch of the log by decoded and gated changes.

    Columns of a log that holds no other batch may get other types.
    """
    observed = _observe_batch(table.config, changes, batch)
    fields = layout.list_source_fields(changes.schema)
    if table.log.read().where(F.col("_batch") != batch).isEmpty():
        layout.drop_retyped(table.log, fields)
    layout.ensure_table(table.log, fields, LOG_COLUMNS, batch)
    writing.replace_rows(table.lake, "silver", table.log.table, observed.rows, f"_batch = {batch}")
    return observed


def _observe_batch(table: Table, changes: DataFrame, batch: int) -> ObservedRows:
    """The batch as rows of the log, with `_digest` and `_batch`, observed in their write."""
    fields = layout.list_source_fields(changes.schema)
    columns = [f.name for f in fields if f.name not in table.keys]
    logged = end_stage(changes.withColumn("_digest", hash_change(changes.schema, columns)))
    return ObservedRows(logged.withColumn("_batch", as_text(batch, F.col("_arrival"))))


def read_log(table: SilverTable) -> DataFrame:
    """The whole log; the columns that came to the table after a row's batch are in its `_absent`.

    In formats without partial changes they are null instead.
    """
    rows = table.log.read()
    late = list_late_columns(table.config, rows)
    absent = absent_before(late, F.col("_operation"), F.col("_absent"))
    return rows.withColumn("_absent", absent) if late else rows


def list_late_columns(table: Table, rows: DataFrame) -> dict[str, int]:
    """The columns that rows of earlier batches do not carry, with the batch that brought them."""
    return layout.find_late_columns(rows.schema) if table.format in _PARTIAL_FORMATS else {}


def find_newest_batch(table: SilverTable) -> int:
    """The newest batch in a table's log, 0 without one."""
    return newest_batch(table.lake, "silver", table.log.table) or 0


def find_newest_batches(lake: Lake, tables: Iterable[Table]) -> dict[str, int | None]:
    """The newest batch of each table's change log; None for a log that cannot be read."""
    logs = {t.table: f"{t.table}_changes" for t in tables}
    newest = newest_batches(lake, "silver", logs.values())
    return {table: newest.get(log, 0) for table, log in logs.items()}


def find_feed_batches(part: DataFrame) -> dict[str, int]:
    """The newest batch of bronze that rows of the log come from, by feed."""
    newest = part.groupBy("_feed").agg(F.max("_feed_batch").alias("newest")).collect()
    return {row["_feed"]: int(row["newest"]) for row in newest}


def read_source_log(rows: DataFrame) -> list[str]:
    """What the rows say of the source database's log, as texts in JSON."""
    texts = rows.where(F.col("_source_log").isNotNull()).select("_source_log").collect()
    return [row["_source_log"] for row in texts]


def count_reasons(rows: DataFrame) -> dict[str, int]:
    """Rejected rows counted by reason."""
    counts = rows.groupBy("_reason").count().collect()
    return {row["_reason"]: row["count"] for row in counts}
