"""Puts the pending part of the change log in order, and notices when that order reaches back.

A batch is applied on its own as long as it only adds to the order. A full snapshot that turns out
to have begun before changes that are applied already, or a key change that arrives on the wrong
side of a change of its old key, changes the order of the past: then the whole log is folded anew.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.errors import TruncateRefused
from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout, log, snapshots
from silver.batch import Batch, Seen, keyed, stamped
from silver.compact import column
from silver.contract import DELETE, UPSERT
from silver.decode.expressions.names import grouped_columns
from silver.epochs import Epoch, epoch
from silver.heirs import disordered, inherit
from silver.lives import folds_keys_anew, of_same_keys
from silver.presence import absent_before, names_array
from silver.snapshots import TableChanges
from silver.summary import Summary, summarize


class Placed(NamedTuple):
    """A batch in order; whether it replaces the table; what it adds to the table-wide changes."""

    batch: Batch
    refold: bool
    new: TableChanges


def place(
    spark: SparkSession,
    target: Target,
    table: Table,
    rows: DataFrame,
    pending: DataFrame,
    seen: Seen,
    newest: int,
    summary: Summary,
) -> Placed:
    """Orders the log rows `pending`, or the whole log where they change the past.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        rows: the change log up to batch `newest`.
        pending: the part of it to apply; what is applied already changes nothing again.
        seen: what the table has applied.
        newest: the batch that written rows get.
        summary: what `pending` holds.

    Raises:
        TruncateRefused: the source truncated the table and `on_truncate` is `fail`.
    """
    if summary.truncates and table.on_truncate == "fail":
        raise TruncateRefused(table.table)
    known = seen.whole
    after = TableChanges([*known.sightings, *summary.sightings], known.truncates)
    earlier = rows.where(F.col("_batch") <= seen.batch)
    if _reaches_back(earlier, pending, table, known.epochs, after.epochs, seen, summary):
        none = TableChanges(after.sightings, [])
        whole = summarize(rows)
        return _placed(spark, target, table, rows, newest, whole, none, seen, None)
    placed = _placed(spark, target, table, pending, newest, summary, after, seen, earlier)
    if not folds_keys_anew(table, placed.batch.seen_partial or summary.incomplete > 0):
        return placed
    whole = summarize(rows)
    if placed.batch.floor_is_new and seen.batch:
        none = TableChanges(after.sightings, [])
        return _placed(spark, target, table, rows, newest, whole, none, seen, None)
    return _with_keys(table, rows, pending, placed, whole)


def anew(table: Table, rows: DataFrame, pending: DataFrame, placed: Placed) -> Placed:
    """The same batch with all changes of its keys, a redelivered one once, as it came first.

    Args:
        table: the table's configuration; a current table with keys.
        rows: the change log up to the batch.
        pending: the part of it to apply.
        placed: the same in order.
    """
    if placed.batch.of_keys is not None:
        return placed
    if placed.refold:
        return placed._replace(batch=placed.batch._replace(of_keys=placed.batch.changes))
    return _with_keys(table, rows, pending, placed, summarize(rows))


def _with_keys(
    table: Table, rows: DataFrame, pending: DataFrame, placed: Placed, whole: Summary
) -> Placed:
    changes = keyed(stamped(rows, table, placed.new.epochs))
    if whole.heirs:
        changes = inherit(changes, None, table.keys, whole.partial, placed.batch.floors)
    partial = sorted({*whole.partial, *placed.batch.partial})
    of_keys = of_same_keys(changes, pending, table.keys)
    return placed._replace(batch=placed.batch._replace(of_keys=of_keys, partial=partial))


def _placed(
    spark: SparkSession,
    target: Target,
    table: Table,
    rows: DataFrame,
    newest: int,
    summary: Summary,
    known: TableChanges,
    seen: Seen,
    earlier: DataFrame | None,
) -> Placed:
    """Orders `rows`; without `earlier` ones they are the whole log, folded anew."""
    refold = earlier is None
    before = None if refold else seen.whole.floors(table.on_truncate == "apply")
    placed = stamped(rows, table, known.epochs)
    cut = snapshots.truncates(placed) if summary.truncates else []
    changed = TableChanges(known.sightings, sorted({*known.truncates, *cut}))
    floors = changed.floors(table.on_truncate == "apply")
    changes, late = keyed(placed), log.late_columns(table, rows)
    if summary.heirs:
        held = None
        if earlier is not None:
            applied = keyed(stamped(earlier, table, known.epochs))
            held = _held(spark, target, table, applied, summary.partial, late)
        changes = inherit(changes, held, table.keys, summary.partial, floors)
    fields = layout.business(rows.schema)
    partial = sorted({*summary.partial, *({f.name for f in fields} & {*grouped_columns(table)})})
    split = seen.partial or bool(late)
    new, size = floors != before, summary.changes
    batch = Batch(newest, changes, fields, partial, floors, new, split, None, late, size, told=[])
    if refold and folds_keys_anew(table, bool(partial)):
        batch = batch._replace(of_keys=changes)
    return Placed(batch, refold, changed)


def _reaches_back(
    earlier: DataFrame,
    pending: DataFrame,
    table: Table,
    before: list[Epoch],
    after: list[Epoch],
    seen: Seen,
    summary: Summary,
) -> bool:
    if table.format != "debezium" or seen.batch == 0:
        return False
    if _begins(before) != _begins(after) and _moves(earlier, before, after):
        return True
    if not table.keys or not (seen.heirs or summary.heirs):
        return False
    old, new = (keyed(stamped(rows, table, after)) for rows in (earlier, pending))
    return disordered(old, new, table.keys)


def _begins(epochs: list[Epoch]) -> list[tuple[str, int, int | None, dict[str, str]]]:
    return [(e.snapshot, e.number, e.started, e.first) for e in epochs]


def _moves(earlier: DataFrame, before: list[Epoch], after: list[Epoch]) -> bool:
    """Whether some applied change belongs to another epoch now."""
    changes = earlier.where(F.col("_operation") != "none")
    return not changes.where(epoch(before) != epoch(after)).isEmpty()


def _held(
    spark: SparkSession,
    target: Target,
    table: Table,
    applied: DataFrame,
    partial: list[str],
    late: Mapping[str, int],
) -> DataFrame | None:
    """What the table knows of each key from the changes `applied`.

    One row per change of its columns that it tells apart, as that change carried them, and one per
    delete. `late` are columns that rows written before a batch did not carry, with that batch.
    """
    kept = f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table
    if not names.exists(spark, target, "silver", kept):
        return None
    rows = spark.table(names.name(target, "silver", kept))
    keys = [column(k) for k in table.keys]
    have = [c for c in partial if c in rows.columns]
    values = [column(c) if c in have else F.lit(None).alias(c) for c in partial]
    if table.stored_as_scd_type == 2:
        carried = [rows.where(F.col("_operation") == UPSERT)]
    else:
        carried = [_as_of(rows, F.col("_upsert_stamp"), F.map_keys("_column_stamps"))]
        for c in have:
            others = names_array([other for other in partial if other != c])
            carried.append(_as_of(rows, F.col("_column_stamps")[c], others))
    deleted = applied.where(F.col("_operation") == DELETE).withColumn("_absent", names_array([]))
    none = [F.lit(None).cast(applied.schema[c].dataType).alias(c) for c in partial]
    found = deleted.select(*keys, *none, "_operation", "_stamp", "_absent")
    for part in carried:
        known = part.withColumn("_absent", absent_before(late))
        found = found.unionByName(known.select(*keys, *values, "_operation", "_stamp", "_absent"))
    return found


def _as_of(rows: DataFrame, stamp: Column, absent: Column) -> DataFrame:
    """The current table's rows as of a stamp, where they have it, without the columns `absent`."""
    dated = rows.where(stamp > "").withColumns({"_operation": F.lit(UPSERT), "_absent": absent})
    return dated.withColumn("_stamp", stamp)


def fresh(placed: Placed, known: TableChanges) -> TableChanges:
    """The table-wide changes that a batch showed beyond those `known`."""
    truncates = [] if placed.refold else known.truncates
    return TableChanges(
        [s for s in placed.new.sightings if s not in known.sightings],
        [t for t in placed.new.truncates if t not in truncates],
    )
