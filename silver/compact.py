"""One batch of changes as one row per key: what the batch alone says of the key.

A row of the current table and a compacted batch have one shape and one rule: each column has the
value of the newest change that carried it, newest by stamp. Joining two such rows is commutative,
associative and idempotent, so the outcome does not depend on the order of arrival, on how the
changes were cut into batches, or on how often they were delivered.
"""

from collections.abc import Collection
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse import names
from silver.contract import DELETE, UPSERT


def column(name: str) -> Column:
    """The column of exactly this name, whatever characters it has."""
    return F.col(names.quote(name))


def stamp() -> Column:
    """A change's place in the total order: sequence, then order of arrival.

    The blank sorts before `/`, so a sequence that is the prefix of another sorts first.
    """
    return F.concat(F.col("_sequence"), F.lit(" "), F.col("_arrival"))


def digest(columns: list[str]) -> Column:
    """A 64-bit hash of what the change carries; nulls of different columns do not cancel out."""
    values = [F.to_json(F.struct(*[column(c) for c in columns]))] if columns else []
    return F.xxhash64(F.col("_operation"), F.to_json("_absent"), *values)


def compact(
    changes: DataFrame,
    keys: list[str],
    columns: list[str],
    partial: list[str],
    apart: Collection[str] = (),
) -> DataFrame:
    """Reduces stamped upserts and deletes to one row per key.

    Args:
        changes: rows with `_stamp` (and the contract's change columns), upserts and deletes only.
        keys: the key columns.
        columns: the other business columns.
        partial: those of `columns` that some change of the batch does not carry.
        apart: those of `partial` that have an order of their own, found in `_group_sequences`.

    Returns:
        Keys, columns, and the columns of the current table but `_batch` and `_class`.
    """
    upsert, delete = F.col("_operation") == UPSERT, F.col("_operation") == DELETE
    whole = [c for c in columns if c not in partial]
    newest = F.struct("_stamp", "_operation", "_digest", "_source_time", "_position")
    values = F.struct(F.lit(True).alias("_any"), *[column(c) for c in whole])
    aggregates = [
        F.max(newest).alias("_newest"),
        F.max_by(values, F.when(upsert, F.col("_stamp"))).alias("_values"),
        F.max(F.when(upsert, F.col("_stamp"))).alias("_upsert_stamp"),
        F.max(F.when(delete, F.col("_stamp"))).alias("_deleted_stamp"),
    ]
    for at, name in enumerate(partial):
        carried = upsert & ~F.coalesce(F.array_contains("_absent", name), F.lit(False))
        when = F.when(carried, _place(name) if name in apart else F.col("_stamp"))
        since = F.max_by("_stamp", when) if name in apart else F.max(when)
        aggregates += [F.max_by(column(name), when).alias(f"_v{at}"), since.alias(f"_s{at}")]
    grouped = changes.groupBy(*[column(k) for k in keys]).agg(*aggregates)
    return grouped.select(*_state(keys, columns, partial))


def _place(name: str) -> Column:
    """Where a change of a column stands that has an order of its own."""
    own = F.col("_group_sequences")[name]
    return F.struct(F.coalesce(own, F.lit("")).alias("own"), F.col("_stamp").alias("row"))


def _state(keys: list[str], columns: list[str], partial: list[str]) -> list[Column]:
    newest = F.col("_newest")
    forgotten = {name: _forgotten(F.col(f"_s{at}")) for at, name in enumerate(partial)}
    taken = {name: F.when(~forgotten[name], F.col(f"_v{at}")) for at, name in enumerate(partial)}
    values = [taken.get(c, F.col(f"_values.{names.quote(c)}")).alias(c) for c in columns]
    placed = {
        name: F.when(forgotten[name], F.col("_deleted_stamp")).otherwise(F.col(f"_s{at}"))
        for at, name in enumerate(partial)
    }
    stamps = _column_stamps(placed)
    return [
        *[column(k) for k in keys],
        *values,
        newest["_stamp"].alias("_stamp"),
        (newest["_operation"] == DELETE).alias("_deleted"),
        F.col("_upsert_stamp"),
        F.col("_deleted_stamp"),
        stamps.alias("_column_stamps"),
        stamps.isNotNull().alias("_partial"),
        newest["_digest"].alias("_digest"),
        newest["_source_time"].alias("_source_time"),
        newest["_position"].alias("_position"),
    ]


def _forgotten(at: Column) -> Column:
    """Whether a live row's column was last carried before the key's newest delete.

    It is null since.
    """
    live = F.col("_newest")["_operation"] == UPSERT
    return F.coalesce(live & (F.coalesce(at, F.lit("")) < F.col("_deleted_stamp")), F.lit(False))


def _column_stamps(stamps: dict[str, Column]) -> Column:
    """The stamps that differ from the newest upsert's, as a map.

    '' where no change carried the column.
    """
    if not stamps:
        return F.lit(None).cast("map<string,string>")
    entries = [
        F.when(
            F.col("_upsert_stamp").isNotNull() & ~F.col("_upsert_stamp").eqNullSafe(at),
            F.struct(F.lit(name).alias("key"), F.coalesce(at, F.lit("")).alias("value")),
        )
        for name, at in stamps.items()
    ]
    kept = F.filter(F.array(*entries), lambda entry: entry.isNotNull())
    return F.when(F.size(kept) > 0, F.map_from_entries(kept))


def own_stamp(side: str, name: str, since: int | None = None) -> str:
    """SQL for the stamp of one column of a row.

    Its own, else the row's newest upsert's, else ''; also '' where the column came to the table
    with batch `since` and the row was written before.
    """
    row = f"coalesce({side}._upsert_stamp, '')"
    if since is not None:
        row = f"CASE WHEN {side}._batch < {since} THEN '' ELSE {row} END"
    return f"coalesce({side}._column_stamps[{names.literal(name)}], {row})"


def all_of(conditions: list[Column]) -> Column:
    """The conjunction of conditions; true when there are none."""
    return reduce(lambda left, right: left & right, conditions, F.lit(True))
