"""Key changes with an unavailable value: the old key's changes are added under the new key.

PostgreSQL sends a key change as the delete of the old key and the insert of the new one; a large
value that the change did not touch is a placeholder in that insert. Its value is the one that the
row had under its old key. The fold sees one key at a time, so it is given the earlier changes of
the old key too, marked as such (see `silver.fold.law`). They are read from the change log.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.names import quote
from silver.storage.row_columns import column


def with_old_keys(changes: DataFrame, everything: DataFrame, table: Table) -> DataFrame:
    """Adds the changes of the keys from which rows moved, directly or through other keys.

    Args:
        changes: upserts and deletes of a batch, with order keys.
        everything: all upserts and deletes of the table up to the batch, with order keys.
        table: the table's configuration.

    Returns:
        The changes, and those of the old keys under the new ones. Hashes name the key that a row
        came from (`_moved_from`) and a change's own, old key (`_belongs_to`).
    """
    keys = table.keys
    new_keys = _hash_key(keys).alias("_to"), _build_key_struct(keys).alias("_new_key")
    moved = changes.where(_is_moved()).select(*new_keys).distinct()
    asked = _collect_old_keys(changes, everything, keys).join(moved, "_to")
    columns = {c: column(c) for c in changes.columns} | {"_new": F.lit(False)}
    columns |= {k: F.col("_new_key")[k] for k in keys}
    moved_from = F.when(_is_moved(), _hash_of_old(changes, keys)).alias("_moved_from")
    is_before = (_hash_key(keys) == F.col("_from")) & (F.col("_order") < F.col("_before"))
    given = [value.alias(name) for name, value in columns.items()]
    joined = everything.join(F.broadcast(asked), is_before)
    of_old_keys = joined.select(*given, moved_from, F.col("_from").alias("_belongs_to"))
    none = F.lit(None).cast("bigint").alias("_belongs_to")
    kept = changes.select(*map(column, changes.columns), moved_from, none)
    return kept.unionByName(of_old_keys)


def are_overtaken(earlier: DataFrame, batch: DataFrame, table: Table) -> bool:
    """Whether the batch has changes of an old key that precede a key change applied already.

    The value that moved may then be wrong. Both sides are upserts and deletes with order keys.
    """
    moved = _select_moves(earlier, table.keys)
    is_before = (_hash_key(table.keys) == F.col("_from")) & (F.col("_order") < F.col("_before"))
    return not batch.join(moved, is_before).isEmpty()


class Move(NamedTuple):
    """A row's move to another key, at an order key; keys as hashes."""

    to: int
    old: int
    order: bytes


def find_old_keys(moves: Iterable[Move], earlier: Iterable[Move]) -> dict[tuple[int, int], bytes]:
    """For each key to which a row moved, all keys that it comes from.

    Returns:
        By new and old key: below which order key changes of the old key matter.
    """
    before: dict[int, list[Move]] = {}
    for move in earlier:
        before.setdefault(move.to, []).append(move)
    limits: dict[tuple[int, int], bytes] = {}
    queue = [(move.to, move) for move in moves]
    while queue:
        new_key, move = queue.pop()
        if limits.get((new_key, move.old), b"") < move.order:
            limits[new_key, move.old] = move.order
            queue += [(new_key, m) for m in before.get(move.old, ()) if m.order < move.order]
    return limits


def _collect_old_keys(changes: DataFrame, everything: DataFrame, keys: list[str]) -> DataFrame:
    """What `find_old_keys` finds; hashes and order keys come to the driver, never values."""
    sides = (_select_moves(rows, keys).collect() for rows in (changes, everything))
    moves, earlier = ([Move(to, old, bytes(at)) for to, old, at in side] for side in sides)
    limits = find_old_keys(moves, earlier).items()
    rows = [{"_to": to, "_from": old, "_before": order.hex()} for (to, old), order in limits]
    schema = "_to bigint, _from bigint, _before string"
    return local_rows(changes.sparkSession, rows, schema).withColumn("_before", F.unhex("_before"))


def _select_moves(changes: DataFrame, keys: list[str]) -> DataFrame:
    """The moves: key changes whose insert lacks some columns."""
    old = _hash_of_old(changes, keys).alias("_from")
    moved = changes.where(_is_moved())
    return moved.select(_hash_key(keys).alias("_to"), old, F.col("_order").alias("_before"))


def _is_moved() -> Column:
    return F.col("_old_key").isNotNull() & F.col("_absent").isNotNull()


def _build_key_struct(keys: list[str]) -> Column:
    return F.struct(*[column(k).alias(k) for k in keys])


def _hash_key(keys: list[str]) -> Column:
    return _hash_of([column(k) for k in keys])


def _hash_of_old(rows: DataFrame, keys: list[str]) -> Column:
    """The hash of the key that a row came from, read in the keys' types."""
    schema = ", ".join(f"{quote(k)} {rows.schema[k].dataType.simpleString()}" for k in keys)
    old = F.from_json("_old_key", schema)
    return _hash_of([old[k] for k in keys])


def _hash_of(parts: list[Column]) -> Column:
    """A hash of values and of which are null, as Spark's hash skips nulls."""
    return F.xxhash64(*parts, *[part.isNull() for part in parts])
