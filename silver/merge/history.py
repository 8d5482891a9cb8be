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
from silver.changelog.batch import Batch
from silver.contract import HISTORY_COLUMNS
from silver.decode.expressions.names import grouped_columns
from silver.fold.arrow import FoldPlan
from silver.fold.order_key import order_literal, sequence_of
from silver.fold.rules import FoldRules
from silver.fold.spark import Counts, fold, observe
from silver.merge import counted
from silver.storage import layout
from silver.storage.row_columns import absent_before, of_keys


def write_history(batch: Batch) -> Counts:
    """Folds a batch into `silver.T_history`."""
    table, kept = batch.table.config, batch.table.kept
    empty = layout.ensure_table(kept, batch.fields, HISTORY_COLUMNS, of=table)
    values = layout.list_value_columns(kept.schema, table.keys)
    if not (batch.recomputes or batch.size or (batch.cutoff_is_new and not empty)):
        return Counts({}, 0, 0)
    if batch.recomputes or empty:
        rows = observe(first_versions(batch, values, counted.choose_file_count(batch)))
        layout.load_rows(kept, rows.rows, batch.recomputes, table)
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


def list_tracked_columns(table: Table, values: list[str]) -> list[str]:
    """The columns whose change opens a version; operational columns never do."""
    if table.track_history_column_list is not None:
        chosen = [v for v in values if v in table.track_history_column_list]
    else:
        chosen = [v for v in values if v not in (table.track_history_except_column_list or [])]
    return [v for v in chosen if not (v in table.columns and table.columns[v].operational)]


def _read_touched_rows(held: DataFrame, batch: Batch) -> DataFrame:
    """Per key: the stored rows from its first new change on, and the row before.

    All rows where a cut-off takes effect: it may end versions of any key.
    """
    if batch.late:
        given = absent_before(batch.late, F.col("_operation"), F.col("_absent"))
        held = held.withColumn("_absent", given)
    if batch.cutoff_is_new:
        return held
    table = batch.table.config
    if batch.of_whole_keys:
        return of_keys(held, batch.keys, table)
    first = batch.first_order or _find_first_order(batch)
    if first is None:
        return held.limit(0)
    begins = F.expr(order_literal(sequence_of(first)))
    near = batch.key_range()
    held = held if near is None else held.where(near)
    suffix = held.where(F.col("_next_order").isNull() | (F.col("_next_order") >= begins))
    return of_keys(suffix, batch.keys, table)


def _find_first_order(batch: Batch) -> bytes | None:
    new_changes = batch.changes.where("_new")
    lowest = new_changes.agg(F.min("_order").alias("first")).collect()[0]["first"]
    return None if lowest is None else bytes(lowest)


def _build_plan(batch: Batch, values: list[str]) -> FoldPlan:
    table = batch.table.config
    rules = FoldRules(
        columns=tuple(values),
        grouped=tuple(c for c in grouped_columns(table) if c in values),
        tracked=tuple(list_tracked_columns(table, values)),
        cutoffs=tuple(batch.cutoffs),
        from_log=batch.of_whole_keys,
        keeps_deleted=table.on_delete == "flag",
    )
    return FoldPlan(rules, tuple(table.keys), history=True)
