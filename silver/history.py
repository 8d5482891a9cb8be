"""Every version of every key: `silver.T_history`, folded anew for a batch where it matters.

The table holds one row per distinct change, its values resolved (a column that the change did not
carry has the value current at that place in order) and its version worked out. A change that agrees
with the one before it on all tracked columns is kept, not shown: a delete that arrives late between
the two must find it. A batch reads, of its own keys only, the rows that stand at or after the
batch's oldest stamp and the one row before them, which carries all that is older; then it writes
the rows that came out different.
"""

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout
from silver.batch import Batch, source_of
from silver.row_columns import column
from silver.contract import DELETE, HISTORY_COLUMNS, UPSERT
from silver.floors import first_above
from silver.lives import without_repeats
from silver.presence import absent_before
from silver.resolve import resolve
from silver.snapshots import Truncate
from silver.statements import execute, inserting, updating

_FOLDED = (
    "_next_stamp", "_shown", "_is_current", "_valid_from", "_valid_to",
    "_sequence_from", "_sequence_to", "_life", "_time", "_kept",
)  # fmt: skip
_CARRIED = (
    "_stamp", "_operation", "_absent", "_group_sequences", "_digest", "_source_time", "_position",
    "_batch",
)  # fmt: skip


def apply_history(
    spark: SparkSession, target: Target, table: Table, batch: Batch, refold: bool
) -> None:
    """Weaves a batch into `silver.T_history`; `refold` says that the batch is all there is."""
    name, created = layout.ensure(
        spark, target, f"{table.table}_history", batch.fields, HISTORY_COLUMNS
    )
    values = [f.name for f in layout.business(spark.table(name).schema) if f.name not in table.keys]
    rows = spark.table(name)
    if batch.late:
        rows = rows.withColumn("_absent", absent_before(batch.late))
    empty = refold or created
    folded = joined(rows.limit(0) if empty else rows, batch, table, values, empty)
    if empty:
        layout.load(spark, target, f"{table.table}_history", folded.drop("_changed"), refold)
        return
    text = history_merge_sql(name, table.keys, values)
    execute(spark, text, source_of(folded.where("_changed"), batch))


def joined(
    rows: DataFrame, batch: Batch, table: Table, values: list[str], empty: bool
) -> DataFrame:
    """The history's rows (`empty`: none) that a batch touches, with the batch in them."""
    incoming = _incoming(batch, table, values)
    if batch.of_keys is not None:
        return _fold_anew(rows, incoming, table, values, batch.floors)
    known = rows if empty or batch.floor_is_new else _touched(rows, incoming, table.keys)
    return fold(known, incoming, table, values, batch.floors)


def _incoming(batch: Batch, table: Table, values: list[str]) -> DataFrame:
    changes = batch.changes
    if batch.of_keys is not None:
        changes = without_repeats(batch.of_keys, table.keys)
    return incoming_rows(changes, table.keys, values)


def incoming_rows(changes: DataFrame, keys: list[str], values: list[str]) -> DataFrame:
    """Stamped changes with the columns that the history keeps of them, before they are folded."""
    return changes.select(*[column(c) for c in (*keys, *values)], *_CARRIED)


def _touched(rows: DataFrame, incoming: DataFrame, keys: list[str]) -> DataFrame:
    """Of the batch's keys: the rows at or after the batch's oldest stamp.

    And the row before each.
    """
    first = incoming.agg(F.min(_sequence()).alias("stamp")).first()
    oldest = first["stamp"] if first else None
    suffix = rows.where(F.col("_next_stamp").isNull() | (F.col("_next_stamp") >= F.lit(oldest)))
    return suffix.join(incoming.select(*[column(k) for k in keys]).distinct(), keys, "left_semi")


def fold(
    known: DataFrame, incoming: DataFrame, table: Table, values: list[str], floors: list[Truncate]
) -> DataFrame:
    """Known rows and incoming changes of the same keys, resolved and cut into versions.

    Returns:
        The history's columns and `_changed`: whether the row is new or differs from what is stored.
    """
    old = known.withColumn("_stored", _stored(values)).withColumn("_known", F.lit(True))
    new = incoming.withColumn("_known", F.lit(False))
    united = old.unionByName(new, allowMissingColumns=True)
    together = united.repartition(*[column(k) for k in table.keys])
    once = without_repeats(together, table.keys, F.desc("_known"))
    return _folded(once, table, values, floors)


def _fold_anew(
    rows: DataFrame, changes: DataFrame, table: Table, values: list[str], floors: list[Truncate]
) -> DataFrame:
    """All changes of some keys, cut into versions; `rows` is what the history holds of them."""
    at = [*table.keys, "_stamp"]
    stored = rows.select(*[column(c) for c in at], _stored(values).alias("_stored"))
    fresh = rows.limit(0).unionByName(changes, allowMissingColumns=True)
    fresh = fresh.withColumn("_known", F.lit(False))
    return _folded(fresh.join(stored, at, "left"), table, values, floors)


def _stored(values: list[str]) -> Column:
    return F.struct(*[column(v) for v in values], *_FOLDED)


def _folded(
    ordered: DataFrame, table: Table, values: list[str], floors: list[Truncate]
) -> DataFrame:
    by_key = Window.partitionBy(*[column(k) for k in table.keys]).orderBy("_stamp")
    resolved = resolve(ordered, table, by_key, values, floors)
    cut = _versions(resolved, by_key, table.keys, tracked(table, values), floors)
    cut = cut.withColumn("_class", _class(by_key, table.keys, floors))
    changed = F.col("_stored").isNull() | ~_stored(values).eqNullSafe(F.col("_stored"))
    columns = [column(c) for c in (*table.keys, *values)] + [F.col(c.name) for c in HISTORY_COLUMNS]
    return cut.withColumn("_changed", changed).select(*columns, "_changed")


def tracked(table: Table, values: list[str]) -> list[str]:
    """The columns whose change opens a version; operational columns never do."""
    if table.track_history_column_list is not None:
        chosen = [v for v in values if v in table.track_history_column_list]
    else:
        chosen = [v for v in values if v not in (table.track_history_except_column_list or [])]
    return [v for v in chosen if not (v in table.columns and table.columns[v].operational)]


def _sequence() -> Column:
    return F.substring_index("_stamp", " ", 1)


def _versions(
    rows: DataFrame, by_key: WindowSpec, keys: list[str], columns: list[str], floors: list[Truncate]
) -> DataFrame:
    """Cuts the resolved rows of each key into versions and gives each its bounds."""
    upsert = F.col("_operation") == UPSERT
    nxt = F.lead("_stamp").over(by_key)
    tied = upsert & F.coalesce(F.substring_index(nxt, " ", 1) == _sequence(), F.lit(False))
    counted = rows.withColumn("_next_stamp", nxt).withColumn("_counts", upsert & ~tied)
    timed = counted.withColumn("_time", _time(by_key))
    content = F.struct(*[column(c) for c in columns]) if columns else F.struct(F.lit(1))
    marked = timed.withColumn("_content", F.struct(F.col("_life"), content.alias("c")))
    before = by_key.rowsBetween(Window.unboundedPreceding, -1)
    previous = F.last(F.when(F.col("_counts"), F.col("_content")), ignorenulls=True).over(before)
    opens = F.col("_counts") & ~F.col("_content").eqNullSafe(previous)
    numbered = marked.withColumn("_opens", opens)
    number = F.sum(F.col("_opens").cast("int")).over(
        by_key.rowsBetween(Window.unboundedPreceding, 0)
    )
    grouped = numbered.withColumn("_number", number).withColumn("_end", _end(by_key, floors))
    return _bounded(grouped, keys)


def _class(by_key: WindowSpec, keys: list[str], floors: list[Truncate]) -> Column:
    """What became of a change when it was applied; what is known already keeps its class."""
    sound = F.col("_counts") | (F.col("_operation") == DELETE)
    below = F.col("_stamp") < F.lit(floors[-1].stamp) if floors else F.lit(False)
    after = by_key.rowsBetween(1, Window.unboundedFollowing)
    late = F.coalesce(F.min("_batch").over(after) < F.col("_batch"), F.lit(False))
    life = Window.partitionBy(*[column(k) for k in keys], "_life").orderBy("_stamp")
    alone = F.row_number().over(life) == 1
    upserted = F.when(alone, "inserted").otherwise("updated")
    deleted = F.when(alone, "delete_unknown").otherwise("deleted")
    own = F.when(F.col("_operation") == DELETE, deleted).otherwise(upserted)
    fresh = F.when(~sound | below, "superseded").when(late, "late").otherwise(own)
    return F.when(F.col("_known"), F.col("_class")).otherwise(fresh)


def _time(by_key: WindowSpec) -> Column:
    """Commit time that never runs back along the sequence, so that versions cannot overlap."""
    so_far = by_key.rowsBetween(Window.unboundedPreceding, 0)
    return F.greatest(F.max("_source_time").over(so_far), F.first("_time").over(so_far))


def _end(by_key: WindowSpec, floors: list[Truncate]) -> Column:
    """Where the row's content ends.

    The next change of another sequence, or a truncate before it.
    """
    following = F.struct(
        F.lead("_stamp").over(by_key).alias("stamp"), F.lead("_time").over(by_key).alias("time")
    )
    end = F.when(following["stamp"].isNotNull(), following)
    return F.least(end, first_above(floors))


def _bounded(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Gives each row that counts its version's beginning, and the version's newest row its end."""
    version = Window.partitionBy(*[column(k) for k in keys], "_number", "_counts")
    begins = F.struct("_valid_from", "_sequence_from")
    own = F.struct(F.col("_time").alias("_valid_from"), _sequence().alias("_sequence_from"))
    began = F.first(F.when(F.col("_anchor"), begins).otherwise(own)).over(version.orderBy("_stamp"))
    ends = F.max_by("_end", "_stamp").over(version)
    newest = F.max("_stamp").over(version) == F.col("_stamp")
    counts, shown = F.col("_counts"), F.col("_counts") & newest
    return rows.withColumns(
        {
            "_valid_from": F.when(counts, began["_valid_from"]),
            "_sequence_from": F.when(counts, began["_sequence_from"]),
            "_valid_to": F.when(
                shown & ends["stamp"].isNotNull(), F.greatest(ends["time"], began["_valid_from"])
            ),
            "_sequence_to": F.when(shown, F.substring_index(ends["stamp"], " ", 1)),
            "_is_current": shown & ends["stamp"].isNull(),
            "_shown": shown,
        }
    )


def history_merge_sql(target: str, keys: list[str], values: list[str]) -> str:
    """The MERGE INTO text that writes folded rows; the source is the placeholder `{rows}`."""
    on = " AND ".join(f"t.{names.quote(k)} = s.{names.quote(k)}" for k in keys)
    every = (*keys, *values, *(c.name for c in HISTORY_COLUMNS))
    return (
        f"MERGE INTO {target} t USING {{rows}} s ON {on} AND t._stamp = s._stamp"
        f" WHEN MATCHED THEN {updating((*values, *_FOLDED))}"
        f" WHEN NOT MATCHED THEN {inserting(every)}"
    )
