"""The current table `silver.T`: one row per key, written by one MERGE, or by one write of all rows.

The rows that are written replace those of their keys, so the MERGE names no column of the table but
its keys and moves no values through its joins. The table's rows of the batch's keys are read
before: order keys and facts, and values only where some change may lack a column. So a tombstone
has no values, unless deleted rows stay visible (`on_delete: flag`); and where only the facts of a
live row change (a tie that was lost, a late delete), which is rare, a second MERGE writes them.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.storage import names
from lakehouse.storage.statements import execute_with_rows, render_insert, render_update
from silver.changelog.batch import Batch, Reach
from silver.contract import CURRENT_COLUMNS, UPSERT
from silver.fold.arrow import CURRENT_FACTS
from silver.fold.order_key import order_literal
from silver.fold.spark import Counts, fold, observe, select_kept
from silver.merge import counted
from silver.storage import layout
from silver.storage.row_columns import absent_before, column, of_keys

_FACTS = tuple(name for name, _ in CURRENT_FACTS)


def write_current(batch: Batch) -> Counts:
    """Folds a batch into `silver.T`."""
    table, kept = batch.table.config, batch.table.kept
    empty = layout.ensure_table(kept, batch.fields, CURRENT_COLUMNS, statistics_for=table)
    values = layout.list_value_columns(kept.schema, table.keys)
    anew = batch.reach is Reach.LOG
    if not (anew or batch.size or (batch.cutoff_is_new and not empty)):
        return Counts({})
    if empty and batch.needs_no_fold:
        layout.load_rows(kept, _as_stored(batch, values), anew=False, clustered_for=table)
        return Counts({"inserted": batch.size}, rows=batch.size)
    if anew or empty:
        rows = observe(first_rows(batch, values, counted.choose_file_count(batch)))
        layout.load_rows(kept, rows.rows, anew, table)
        return rows.counts
    narrow = is_narrow(batch)
    folded = folded_rows(kept.read(), batch, values, narrow)
    cutoff = batch.cutoff if batch.cutoff_is_new else None
    same = names.agree_on("t", "s", table.keys, table.nullable_keys)
    on = names.join_conditions(same, batch.key_range("t."))
    text = merge_sql(kept.name, on, (table.keys, values), cutoff)
    counts = counted.merge_and_count(batch, CURRENT_COLUMNS, text, observe(folded, narrow))
    if counts.left:
        facts_only = select_kept(folded_rows(kept.read(), batch, values, narrow))
        execute_with_rows(batch.table.spark, facts_sql(kept.name, on), facts_only)
    return counts


def first_rows(batch: Batch, values: list[str], partitions: int | None = None) -> DataFrame:
    """The batch folded on its own."""
    folded = fold(batch.to_fold, None, counted.build_plan(batch, values), partitions)
    return _to_table_rows(folded, batch, values)


def is_narrow(batch: Batch) -> bool:
    """Whether the batch's rows can be written without values that the table holds."""
    needs_stored = batch.is_partial or batch.has_seen_partial
    return batch.reach is Reach.NEW and not needs_stored and batch.table.config.on_delete != "flag"


def folded_rows(kept: DataFrame, batch: Batch, values: list[str], narrow: bool) -> DataFrame:
    """The batch folded with the table's rows of its keys.

    Args:
        kept: all rows of the table.
        batch: the batch.
        values: the columns but the keys.
        narrow: whether stored values are not read. Rows that keep their stored values are then
            returned with wrong ones.
    """
    table = batch.table.config
    read_values = [] if narrow or batch.reach is not Reach.NEW else values
    rows = kept.select(*map(column, (*table.keys, *read_values)), *_FACTS, "_batch")
    key_range = batch.key_range()
    stored = of_keys(rows if key_range is None else rows.where(key_range), batch.keys, table)
    if batch.cutoff_is_new and batch.has_seen_partial:
        has_orders = F.col("_facts.columns").isNotNull()
        stored = rows.where(has_orders).unionByName(stored.where(~has_orders))
    if batch.late:
        stored = stored.withColumn("_absent", absent_before(batch.late, F.lit(UPSERT), F.lit(None)))
    folded = fold(batch.to_fold, stored, counted.build_plan(batch, values))
    return _to_table_rows(folded, batch, values)


def merge_sql(
    target: str, on: str, columns: tuple[list[str], list[str]], cutoff: bytes | None
) -> str:
    """The MERGE INTO text that writes folded rows; the source is the placeholder `{rows}`.

    Args:
        target: SQL name of the table.
        on: the condition that a row of the table `t` and one of the source `s` have the same key.
        columns: the keys, and the values.
        cutoff: the new truncate point or snapshot cut-off, if any: older rows are deleted.
    """
    keys, values = columns
    others = (*values, *(c.name for c in CURRENT_COLUMNS))
    text = (
        f"MERGE INTO {target} t USING {{rows}} s ON {on}"
        f" WHEN MATCHED THEN {render_update(others)}"
        f" WHEN NOT MATCHED THEN {render_insert((*keys, *others))}"
    )
    if cutoff is None:
        return text
    older = f"t._order < {order_literal(cutoff)}"
    return f"{text} WHEN NOT MATCHED BY SOURCE AND {older} THEN DELETE"


def facts_sql(target: str, on: str) -> str:
    """The MERGE INTO text that writes the layer's columns of rows whose values stay."""
    stored = [c.name for c in CURRENT_COLUMNS if c.name != "_batch"]
    matched = f"WHEN MATCHED THEN {render_update(stored)}"
    return f"MERGE INTO {target} t USING {{rows}} s ON {on} {matched}"


def _as_stored(batch: Batch, values: list[str]) -> DataFrame:
    """Changes, each of which is the row of its key, as the fold would give them."""
    keys = batch.table.config.keys
    given = {"_order": F.col("_order"), "_deleted": F.lit(False), "_digest": F.col("_digest")}
    nulls = {name: F.lit(None).cast(type) for name, type in CURRENT_FACTS if name not in given}
    rows = batch.changes.select(
        *map(column, (*keys, *values)), *[one.alias(n) for n, one in (given | nulls).items()]
    )
    return rows.withColumn("_batch", batch.number_beside(keys[0]))


def _to_table_rows(rows: DataFrame, batch: Batch, values: list[str]) -> DataFrame:
    """Folded rows as the table has them."""
    table = batch.table.config
    written = {"_batch": batch.number_beside(table.keys[0])}
    if table.on_delete != "flag" and values:
        written |= {c: F.when(~F.col("_deleted"), column(c)) for c in values}
    return rows.withColumns(written)
