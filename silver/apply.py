"""Applies one batch of changes to the current table `silver.T`: compact, join, then one MERGE INTO.

The row of a key is the join of all its changes (see `silver.compact`), so nothing here depends on
the order of arrival, and a repeated batch writes no row. Deletes stay as tombstones (`_deleted`); a
truncate, or a full snapshot whose last row has arrived, is a floor: changes older than it are left
out, rows older than it are deleted in the same MERGE. A batch that waits because of `max_staleness`
is compacted all the same: it has the shape of the table (see `silver.pending`).

What was chosen, on the figures of `benchmarks/README.md`:
The batch is read from the change log, where it was parsed once: parsing is the largest part.
One aggregation brings it to a row per key; the first load of an empty table is an append.
It is joined with the table's rows of its keys before the MERGE (`silver.merge`), which then carries
keys alone through its joins; its source is computed once (`materializeSource: all`), and goes to
every task where it is small: two joins of three then move no row of the table.
The table has deletion vectors: small ones would be faster without, and be copied with every batch.
The batch's number is a column, so that its code is that of the batch before (`silver.stages`).
A short batch's time is that of its queries: a run remembers what it knows (`silver.known`).
A run that goes on applies many batches at once, and readers see them before (`silver.unapplied`).
A batch that may change much of the table writes it anew, by one join in place of a MERGE's three.
As long took: no adaptive execution, hash joins, a Bloom filter of the batch's keys over the table,
and a look-up with `replaceUsing` for the MERGE.
Nothing prunes by keys: Delta's log keeps no statistics of values, which it would keep when erased.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout
from silver.batch import Batch, source_of
from silver.row_columns import compact
from silver.contract import CURRENT_COLUMNS
from silver.group_order import grouped
from silver.joining import joined, met, whole
from silver.lives import last_lives, without_repeats
from silver.merge import Rule, first_class, merge_sql, of_whole_keys, rules
from silver.stages import apart
from silver.statements import execute
from silver.written import observed

MUCH = 0.3
"""Changes per row of the table from which on writing all rows takes less than a MERGE."""


def apply_current(
    spark: SparkSession, target: Target, table: Table, batch: Batch, refold: bool
) -> None:
    """Joins a batch into `silver.T`.

    `refold` says that the batch is all there is: it replaces the table.
    """
    name, empty = layout.ensure(spark, target, table.table, batch.fields, CURRENT_COLUMNS)
    values = layout.business(spark.table(name).schema)
    columns = [f.name for f in values if f.name not in table.keys]
    rows = compacted(table, batch, columns)
    if refold or empty:
        first = numbered(rows.withColumn("_class", F.expr(first_class())), batch)
        _load(spark, target, table, first, batch._replace(told=None) if refold else batch, refold)
        return
    new, held = batch.floor if batch.floor_is_new else None, spark.table(name)
    rows = _floored(rows, new)
    if _replaces_much(held, batch):
        everything = numbered(whole(rows, held, table.keys, _rules(batch, columns), new), batch)
        _load(spark, target, table, everything, batch, True)
    else:
        written = woven(rows, met(held, _folded(batch), table.keys), table, batch, columns)
        text = merge_sql(name, table.keys, columns, new)
        _merge(spark, target, text, numbered(written, batch), batch)
    if new is not None and _is_split(batch):
        spark.sql(forget_sql(name, columns, new, batch.number))


def _replaces_much(held: DataFrame, batch: Batch) -> bool:
    """Whether the batch may change so much of the table that it is written anew in less time.

    How many rows a table has stands in Delta's log.
    """
    return batch.size is not None and batch.size >= MUCH * held.count()


def _load(
    spark: SparkSession, target: Target, table: Table, rows: DataFrame, batch: Batch, anew: bool
) -> None:
    """Writes all rows of the table, and keeps what the write told of those the batch changed."""
    if batch.told is None or target.kind != "local":
        layout.load(spark, target, table.table, rows, anew)
        return
    source = observed(rows, batch.number)
    layout.load(spark, target, table.table, source.rows, anew)
    _keep(batch, source.told())


def _merge(spark: SparkSession, target: Target, text: str, rows: DataFrame, batch: Batch) -> None:
    """Runs the MERGE of a batch, which tells what it wrote where it and its Spark are such."""
    if batch.told is None or batch.floor_is_new or target.kind != "local":
        execute(spark, text, source_of(rows, batch))
        return
    source = observed(rows, batch.number)
    _keep(batch, source.by_class(execute(spark, text, source_of(source.rows, batch))))


def _keep(batch: Batch, told: dict[str, int] | None) -> None:
    if told is not None and batch.told is not None:
        batch.told.append(told)


def woven(
    rows: DataFrame, held: DataFrame, table: Table, batch: Batch, columns: list[str]
) -> DataFrame:
    """The rows that a MERGE writes: a batch's, joined with what the table holds of their keys."""
    return joined(rows, held, table.keys, _rules(batch, columns))


def _rules(batch: Batch, columns: list[str]) -> list[Rule]:
    if batch.of_keys is not None:
        return of_whole_keys(columns)
    return rules(columns, _is_split(batch), batch.late)


def numbered(rows: DataFrame, batch: Batch) -> DataFrame:
    """The rows with the number of the batch that writes them, where they have none."""
    number = F.lit(batch.number).cast("bigint")
    kept = F.coalesce("_batch", number) if "_batch" in rows.columns else number
    return apart(rows).withColumn("_batch", kept)


def compacted(table: Table, batch: Batch, columns: list[str]) -> DataFrame:
    """The batch as one row per key, in the shape of the table but for `_batch` and `_class`."""
    changes = _folded(batch)
    if batch.of_keys is not None:
        changes = last_lives(without_repeats(changes, table.keys), table.keys)
    return compact(changes, table.keys, columns, batch.partial, grouped(table))


def _is_split(batch: Batch) -> bool:
    """Whether a row of the batch or of the table may have column stamps of its own."""
    return bool(batch.partial) or batch.seen_partial


def _folded(batch: Batch) -> DataFrame:
    """The changes that make the batch's rows."""
    changes = batch.changes if batch.of_keys is None else batch.of_keys
    return changes if batch.floor is None else changes.where(F.col("_stamp") > batch.floor)


def _floored(rows: DataFrame, floor: str | None) -> DataFrame:
    """To a key, a truncate is a delete: what the key carried before it is forgotten."""
    if floor is None:
        return rows
    return rows.withColumn("_deleted_stamp", F.greatest("_deleted_stamp", F.lit(floor)))


def forget_sql(name: str, columns: list[str], floor: str, batch: int) -> str:
    """The UPDATE that empties columns last carried before a truncate.

    In rows that live on after it.
    """
    stamp = names.literal(floor)
    older = {
        c: f"coalesce(_column_stamps[{names.literal(c)}], _upsert_stamp) < {stamp}" for c in columns
    }
    values = [
        f"{names.quote(c)} = CASE WHEN {old} THEN NULL ELSE {names.quote(c)} END"
        for c, old in older.items()
    ]
    raised = f"transform_values(_column_stamps, (c, at) -> greatest(at, {stamp}))"
    sets = ", ".join(
        [*values, f"_column_stamps = {raised}", f"_batch = {batch}", "_class = 'forgotten'"]
    )
    return f"UPDATE {name} SET {sets} WHERE _partial AND _stamp > {stamp}"
