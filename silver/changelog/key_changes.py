"""Key changes with an unavailable value: the changes of the old key come along under the new one.

PostgreSQL sends a key change as the delete of the old key and the insert of the new one; a large
value that the change did not touch is a placeholder in that insert. Its value is the one that the
row had under its old key. The fold sees one key at a time, so it is given the earlier changes of
the old key too, marked as such (`silver.fold.law`). They are read from the change log.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage.names import quote
from silver.storage.row_columns import column


def with_old_keys(changes: DataFrame, everything: DataFrame, table: Table) -> DataFrame:
    """Adds the changes of the keys from which rows moved, be it by way of other keys.

    Args:
        changes: upserts and deletes of a batch, with order keys.
        everything: all upserts and deletes of the table up to the batch, with order keys.
        table: the table's configuration.

    Returns:
        The changes with `_moved_from`, and those of the old keys under the new ones, `_belongs_to`
        their own. Both are hashes of a key.
    """
    keys = table.keys
    pairs = _ancestors(changes, everything, keys).groupBy("_to", "_from")
    asked = pairs.agg(F.max("_before").alias("_before"))
    is_before = (_key(keys) == F.col("_from")) & (F.col("_order") < F.col("_before"))
    own = {k: F.col("_to")[k] for k in keys} | {"_new": F.lit(False)}
    columns = {c: own[c] if c in own else column(c) for c in changes.columns}
    moved_from = F.when(_is_moved(), _hash(_old_key(changes, keys))).alias("_moved_from")
    named = [c.alias(name) for name, c in columns.items()]
    inherited = everything.join(asked, is_before).select(
        *named, moved_from, _hash(_key(keys)).alias("_belongs_to")
    )
    marked = changes.select(
        *map(column, changes.columns),
        moved_from,
        F.lit(None).cast("bigint").alias("_belongs_to"),
    )
    return marked.unionByName(inherited)


def are_overtaken(earlier: DataFrame, batch: DataFrame, table: Table) -> bool:
    """Whether the batch changes an old key before a key change that is applied already.

    Then the value that moved may be another one. Both sides are upserts and deletes with order
    keys.
    """
    moved = _moves(earlier, table.keys)
    is_before = (_key(table.keys) == F.col("_from")) & (F.col("_order") < F.col("_before"))
    return not batch.join(moved, is_before).isEmpty()


def _ancestors(changes: DataFrame, everything: DataFrame, keys: list[str]) -> DataFrame:
    """The keys `_to` to which rows of the batch moved, and all keys `_from` that they come from.

    Of an old key the changes up to the order key `_before` may matter.
    """
    links = _moves(everything, keys).toDF("_link", "_old", "_at")
    pairs = more = _moves(changes, keys)
    while True:
        earlier = (F.col("_from") == F.col("_link")) & (F.col("_at") < F.col("_before"))
        steps = more.join(links, earlier).select("_to", "_old", "_at").distinct()
        known = pairs.toDF("_t", "_f", "_b")
        same = (F.col("_to") == F.col("_t")) & (F.col("_old") == F.col("_f"))
        more = steps.join(known, same & (F.col("_b") >= F.col("_at")), "left_anti")
        more = more.toDF("_to", "_from", "_before")
        if more.isEmpty():
            return pairs
        pairs = pairs.unionByName(more)


def _moves(changes: DataFrame, keys: list[str]) -> DataFrame:
    """The inserts under a new key that do not carry every column: both keys, and the order key."""
    old, new = _old_key(changes, keys).alias("_from"), _key(keys).alias("_to")
    return changes.where(_is_moved()).select(new, old, F.col("_order").alias("_before"))


def _is_moved() -> Column:
    return F.col("_old_key").isNotNull() & F.col("_absent").isNotNull()


def _key(keys: list[str]) -> Column:
    """The key of a row; equal structs have equal parts, and a null equals a null."""
    return F.struct(*[column(k).alias(k) for k in keys])


def _old_key(rows: DataFrame, keys: list[str]) -> Column:
    """The key that a row came from, in the types of its own."""
    schema = ", ".join(f"{quote(k)} {rows.schema[k].dataType.simpleString()}" for k in keys)
    return F.from_json("_old_key", schema)


def _hash(key: Column) -> Column:
    return F.xxhash64(F.to_json(key))
