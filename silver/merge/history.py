"""The history `silver.T_history`: one row per change, its values resolved and its version told.

A change that agrees with the one before it on all tracked columns is kept, not shown: a delete that
arrives late between the two must find it. A batch reads, of its own keys only, the rows that stand
at or after its first change and the one row before them, which carries all that is older; rows that
come out different are written.
"""

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from silver.changelog import log
from silver.contract import HISTORY_COLUMNS
from silver.decode.expressions.names import grouped_columns
from silver.fold.arrow import FoldPlan
from silver.fold.order_key import order_literal, sequence_of
from silver.fold.rules import FoldRules
from silver.fold.spark import Counts, fold, observe
from silver.merge import counted
from silver.state.batch import Batch, of_keys, to_all, to_fold
from silver.storage import layout
from silver.storage.presence import absent_before
from silver.storage.row_columns import column
from silver.storage.statements import inserting, updating


def write_history(
    spark: SparkSession, target: Target, table: Table, batch: Batch, replaces: bool
) -> Counts:
    """Weaves a batch into `silver.T_history`; `replaces` says that the batch is all there is."""
    kept = f"{table.table}_history"
    name, empty = layout.ensure(spark, target, kept, batch.fields, HISTORY_COLUMNS)
    values = layout.values(spark.table(name).schema, table.keys)
    if not (replaces or batch.size or (batch.cutoff_is_new and not empty)):
        return Counts({}, 0, 0)
    if replaces or empty:
        rows = observe(first_versions(table, batch, values, counted.partitions(target, batch.size)))
        layout.load(spark, target, kept, rows.rows, replaces)
        return rows.counts
    folded = folded_versions(spark.table(name), table, batch, values)
    text = merge_sql(name, table.keys, values, table.nullable_keys)
    into = counted.Into(kept, HISTORY_COLUMNS, batch.few)
    return counted.merge(spark, target, into, text, observe(folded))


def first_versions(
    table: Table, batch: Batch, values: list[str], partitions: int | None = None
) -> DataFrame:
    """The batch folded on its own."""
    rows = fold(to_fold(batch), None, _plan(table, batch, values), partitions)
    return rows.withColumn("_batch", log.number_of(table, batch.number))


def folded_versions(held: DataFrame, table: Table, batch: Batch, values: list[str]) -> DataFrame:
    """The rows of the history that the batch touches, with the batch woven in."""
    rows = fold(to_fold(batch), _touched(held, table, batch), _plan(table, batch, values))
    return rows.withColumn("_batch", log.number_of(table, batch.number))


def merge_sql(
    target: str, keys: list[str], values: list[str], nullable: Collection[str] = ()
) -> str:
    """The MERGE INTO text that writes folded rows; the source is the placeholder `{rows}`.

    A null in one of the `nullable` keys equals a null.
    """
    on = names.same("t", "s", keys, nullable)
    others = (*values, *(c.name for c in HISTORY_COLUMNS))
    return (
        f"MERGE INTO {target} t USING {{rows}} s ON {on} AND t._order = s._order"
        f" WHEN MATCHED THEN {updating(others)} WHEN NOT MATCHED THEN {inserting((*keys, *others))}"
    )


def tracked(table: Table, values: list[str]) -> list[str]:
    """The columns whose change opens a version; operational columns never do."""
    if table.track_history_column_list is not None:
        chosen = [v for v in values if v in table.track_history_column_list]
    else:
        chosen = [v for v in values if v not in (table.track_history_except_column_list or [])]
    return [v for v in chosen if not (v in table.columns and table.columns[v].operational)]


def _touched(held: DataFrame, table: Table, batch: Batch) -> DataFrame:
    """The stored rows that the batch may change, and those that tell what was before.

    A cut-off that comes in force may end versions of any key.
    """
    if batch.late:
        given = absent_before(batch.late, F.col("_operation"), F.col("_absent"))
        held = held.withColumn("_absent", given)
    if batch.cutoff_is_new:
        return held
    keys = to_all(batch.changes.select(*map(column, table.keys)), batch.few)
    if batch.of_whole_keys:
        return of_keys(held, keys, table)
    first = batch.first or _first(batch)
    if first is None:
        return held.limit(0)
    begins = F.expr(order_literal(sequence_of(first)))
    suffix = held.where(F.col("_next_order").isNull() | (F.col("_next_order") >= begins))
    return of_keys(suffix, keys, table)


def _first(batch: Batch) -> bytes | None:
    own = batch.changes.where("_new")
    found = own.agg(F.min("_order").alias("first")).collect()[0]["first"]
    return None if found is None else bytes(found)


def _plan(table: Table, batch: Batch, values: list[str]) -> FoldPlan:
    rules = FoldRules(
        columns=tuple(values),
        grouped=tuple(c for c in grouped_columns(table) if c in values),
        tracked=tuple(tracked(table, values)),
        cutoffs=tuple(batch.cutoffs),
        from_log=batch.of_whole_keys,
        keeps_deleted=table.on_delete == "flag",
    )
    return FoldPlan(rules, tuple(table.keys), history=True)
