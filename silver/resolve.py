"""What every column held at each change of a key, in order: placeholders, groups, deleted rows."""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from silver.row_columns import column
from silver.contract import DELETE, UPSERT
from silver.floors import newest_below
from silver.group_order import grouped
from silver.snapshots import Truncate


def resolve(
    ordered: DataFrame, table: Table, by_key: WindowSpec, values: list[str], floors: list[Truncate]
) -> DataFrame:
    """Fills in what the changes of each key did not carry.

    Adds `_life` (the delete or truncate the change came after), `_anchor` (whether the row is the
    first known of its life, which carries all that is older) and `_kept` (see the contract).
    """
    resolved = _resolved(_lives(ordered, by_key, floors), table.keys, values, grouped(table))
    if table.on_delete == "flag":
        return _with_last_values(resolved, by_key, values, floors)
    return resolved.withColumn("_kept", F.lit(None).cast("boolean"))


def _lives(rows: DataFrame, by_key: WindowSpec, floors: list[Truncate]) -> DataFrame:
    """Marks each row with the newest delete or truncate before it.

    A known first row has its own.
    """
    before = by_key.rowsBetween(Window.unboundedPreceding, -1)
    deleted = F.max(F.when(F.col("_operation") == DELETE, F.col("_stamp"))).over(before)
    brought = F.first("_life").over(by_key.rowsBetween(Window.unboundedPreceding, 0))
    anchored = F.first("_known").over(by_key.rowsBetween(Window.unboundedPreceding, 0))
    carried = F.when(anchored, F.coalesce(brought, F.lit("")))
    return rows.withColumn("_life", F.greatest(F.lit(""), deleted, carried, newest_below(floors)))


def _resolved(rows: DataFrame, keys: list[str], values: list[str], groups: list[str]) -> DataFrame:
    """Gives each column that a change did not carry the value it had at that place in order.

    A column with an order of its own takes the newest in that order, of what came up to there.
    """
    life = Window.partitionBy(*[column(k) for k in keys], "_life").orderBy("_stamp")
    so_far = life.rowsBetween(Window.unboundedPreceding, 0)
    first = F.row_number().over(life) == 1
    same = F.col("_life").eqNullSafe(F.col("_stored._life"))
    marked = rows.withColumn("_anchor", first & F.col("_known") & same)

    def value(name: str) -> Column:
        carried = F.col("_absent").isNull() | ~F.array_contains("_absent", name) | F.col("_anchor")
        usable = (F.col("_operation") == UPSERT) & carried
        boxed = F.when(usable, F.struct(column(name).alias("v")))
        if name in groups:
            own = F.coalesce(F.col("_group_sequences")[name], F.lit(""))
            place = F.when(boxed.isNotNull(), F.struct(own, "_stamp"))
            return F.max_by(boxed, place).over(so_far)["v"]
        return F.last(boxed, ignorenulls=True).over(so_far)["v"]

    return marked.withColumns({v: value(v) for v in values}) if values else marked


def _with_last_values(
    rows: DataFrame, by_key: WindowSpec, values: list[str], floors: list[Truncate]
) -> DataFrame:
    """Gives deletes the last values of the row, and `_kept` unless it is gone since a truncate."""
    so_far = by_key.rowsBetween(Window.unboundedPreceding, 0)
    first = F.row_number().over(by_key) == 1
    floor = F.lit(floors[-1].stamp if floors else "")
    stands = (F.col("_operation") == UPSERT) & (F.col("_stamp") > floor)
    shown = stands | F.coalesce(first & F.col("_stored._kept"), F.lit(False))
    last = F.last(
        F.when(shown, F.struct(F.lit(True).alias("_any"), *[column(v) for v in values])),
        ignorenulls=True,
    ).over(so_far)
    deleted = F.col("_operation") == DELETE
    known = rows.withColumn("_last", last)
    given = {
        v: F.when(deleted, F.col(f"_last.{names.quote(v)}")).otherwise(column(v)) for v in values
    }
    kept = F.when(deleted, F.col("_last").isNotNull())
    return known.withColumns(given | {"_kept": kept})
