"""The history `silver.T_history`: one row per change, with complete values and its version.

A change that agrees with the one before it on all tracked columns is kept, but not shown: a delete
that arrives late between the two needs it. A batch reads, of its own keys only, the rows at or
after its first change and the one row before them, which has the values of all older changes; rows
that the fold changes are written.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.statements import render_insert, render_update
from silver.changelog.batch import Batch, Reach
from silver.contract import HISTORY_COLUMNS
from silver.fold.arrow import FoldPlan
from silver.fold.order_key import order_literal, sequence_of
from silver.fold.spark import Counts, fold, observe
from silver.merge import counted
from silver.storage import layout
from silver.storage.row_columns import absent_before, of_keys


def write_history(batch: Batch) -> Counts:
    """Folds a batch into `silver.T_history`."""
    table, kept = batch.table.config, batch.table.kept
    empty = layout.ensure_table(kept, batch.fields, HISTORY_COLUMNS, statistics_for=table)
    values = layout.list_value_columns(kept.schema, table.keys)
    anew = batch.reach is Reach.LOG
    if not (anew or batch.size or (batch.cutoff_is_new and not empty)):
        return Counts({})
    if anew or empty:
        rows = observe(first_versions(batch, values, counted.choose_file_count(batch)))
        layout.load_rows(kept, rows.rows, anew, table)
        return rows.counts
    folded = fold(batch.to_fold, _read_touched_rows(kept.read(), batch), _build_plan(batch, values))
    same = names.agree_on("t", "s", table.keys, table.nullable_keys)
    on = names.join_conditions(same, batch.key_range("t."))
    text = merge_sql(kept.name, on, table.keys, values)
    rows = observe(_add_batch_number(folded, batch))
    return counted.merge_and_count(batch, HISTORY_COLUMNS, text, rows)


def first_versions(batch: Batch, values: list[str], partitions: int | None = None) -> DataFrame:
    """The batch folded on its own."""
    folded = fold(batch.to_fold, None, _build_plan(batch, values), partitions)
    return _add_batch_number(folded, batch)


def _add_batch_number(rows: DataFrame, batch: Batch) -> DataFrame:
    return rows.withColumn("_batch", batch.number_beside(batch.table.config.keys[0]))


def merge_sql(target: str, on: str, keys: list[str], values: list[str]) -> str:
    """The MERGE INTO text that writes folded rows; the source is the placeholder `{rows}`.

    `on` is the condition that a row of the table `t` and one of the source `s` have the same key.
    """
    others = (*values, *(c.name for c in HISTORY_COLUMNS))
    return (
        f"MERGE INTO {target} t USING {{rows}} s ON {on} AND t._order = s._order"
        f" WHEN MATCHED THEN {render_update(others)}"
        f" WHEN NOT MATCHED THEN {render_insert((*keys, *others))}"
    )


def _list_tracked_columns(table: Table, values: list[str]) -> list[str]:
    """The columns whose change opens a version; operational columns never do."""
    if table.track_history_column_list is not None:
        left_out = {*values} - {*table.track_history_column_list}
    else:
        left_out = {*(table.track_history_except_column_list or [])}
    left_out |= {name for name, column in table.columns.items() if column.operational}
    return [value for value in values if value not in left_out]


def _read_touched_rows(kept: DataFrame, batch: Batch) -> DataFrame:
    """Per key: the stored rows from its first new change on, and the row before.

    All rows where a cut-off takes effect: it may end versions of any key.
    """
    if batch.late:
        absent = absent_before(batch.late, F.col("_operation"), F.col("_absent"))
        kept = kept.withColumn("_absent", absent)
    if batch.cutoff_is_new:
        return kept
    table = batch.table.config
    if batch.reach is not Reach.NEW:
        return of_keys(kept, batch.keys, table)
    first = batch.first_order or _find_first_order(batch)
    if first is None:
        return kept.limit(0)
    key_range = batch.key_range()
    rows = kept if key_range is None else kept.where(key_range)
    is_touched = F.col("_next_order") >= F.expr(order_literal(sequence_of(first)))
    return of_keys(rows.where(F.col("_next_order").isNull() | is_touched), batch.keys, table)


def _find_first_order(batch: Batch) -> bytes | None:
    new_changes = batch.changes.where("_new")
    lowest = new_changes.agg(F.min("_order").alias("first")).collect()[0]["first"]
    return None if lowest is None else bytes(lowest)


def _build_plan(batch: Batch, values: list[str]) -> FoldPlan:
    tracked = _list_tracked_columns(batch.table.config, values)
    return counted.build_plan(batch, values, tracked, history=True)
