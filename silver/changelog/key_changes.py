"""Key changes with an unavailable value: only the changes of the old key know it.

PostgreSQL sends a key change as the delete of the old key and the insert of the new one; a large
value that the change did not touch is a placeholder in that insert. Its value is the newest one
that a change carried in the last life of the old key before the insert. A life ends with a delete
or a cut-off; a column that none of its changes carried is null. The changes of the old keys are
read from the change log.
"""

import json
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.config.table import Table
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.names import quote
from silver.contract import UPSERT
from silver.fold.rules import Cutoff
from silver.state.batch import of_keys
from silver.storage.row_columns import all_of, column

Links = Mapping[tuple[str, int], str]
"""By the insert (its order key in hex) and the place of a column: the insert to take it from."""


def resolve(
    changes: DataFrame, everything: DataFrame, table: Table, cutoffs: list[Cutoff]
) -> DataFrame:
    """Fills what inserts under a new key left out, where the changes of the old key carry it.

    A row that moved more than once is followed back to where its value was carried: the order keys
    (never values) of such inserts come to the driver.

    Args:
        changes: upserts and deletes of a batch, with order keys.
        everything: all upserts and deletes of the table up to the batch, with order keys.
        table: the table's configuration.
        cutoffs: those in force, oldest first.

    Returns:
        The changes; a filled column is no longer in `_absent`. Where nothing is known of the old
        key it stays absent.
    """
    keys, donors = table.keys, _of_old_keys(changes, everything, table)
    needed = [*map(column, keys), *map(F.col, ("_order", "_absent", "_old_key"))]
    moved = _moved(changes).select(*needed).union(_moved(donors).select(*needed))
    absent = moved.select(F.explode("_absent").alias("column")).distinct().collect()
    partial = sorted(row["column"] for row in absent)
    if not partial:
        return changes
    given = _given(moved, donors, keys, partial, cutoffs)
    links = _links(given, partial)
    if links:
        given = _through(given, roots(links), partial)
    joined = changes.join(given, F.hex("_order") == F.col("_heir"), "left")
    return _filled(joined, changes.columns, partial)


def are_overtaken(earlier: DataFrame, batch: DataFrame, table: Table) -> bool:
    """Whether the batch changes an old key before a key change that is applied already.

    Then the value that moved may be another one. Both sides are upserts and deletes with order
    keys.
    """
    old = _old_key(earlier, table.keys)
    moved = _moved(earlier).select(
        F.col("_order").alias("_heir"),
        *[old[k].alias(f"_o{at}") for at, k in enumerate(table.keys)],
    )
    same = [F.col(f"_o{at}").eqNullSafe(column(k)) for at, k in enumerate(table.keys)]
    return not moved.join(batch, [*same, F.col("_order") < F.col("_heir")]).isEmpty()


def roots(links: Links) -> Links:
    """Where each chain of inserts ends: at one that is no link itself.

    The order key of a donor is lower than that of its insert, so its own end is known first.
    """
    found: dict[tuple[str, int], str] = {}
    for (heir, at), donor in sorted(links.items()):
        found[heir, at] = found.get((donor, at), donor)
    return found


def _moved(changes: DataFrame) -> DataFrame:
    """The inserts under a new key that do not carry every column."""
    return changes.where("_old_key IS NOT NULL AND _absent IS NOT NULL")


def _of_old_keys(changes: DataFrame, everything: DataFrame, table: Table) -> DataFrame:
    """All changes of the keys from which rows moved, be it by way of other keys."""
    asked = _old_keys(changes, table.keys)
    while True:
        found = of_keys(everything, asked, table)
        more = of_keys(_old_keys(found, table.keys), asked, table, "left_anti")
        if more.isEmpty():
            return found
        asked = asked.unionByName(more)


def _old_keys(changes: DataFrame, keys: list[str]) -> DataFrame:
    old = _old_key(changes, keys)
    return _moved(changes).select(*[old[k].alias(k) for k in keys]).distinct()


def _given(
    moved: DataFrame,
    donors: DataFrame,
    keys: list[str],
    partial: list[str],
    cutoffs: list[Cutoff],
) -> DataFrame:
    """Per insert under a new key, `_heir`, what the old key gives: `_g0`, `_g1`, … by column.

    Each is, of the old key's last life before it, the value `v` of the newest change that carries
    the column, or the insert `via` (its order key in hex) that is newer than that and lacks the
    column as well: it takes it from there.
    """
    old = _old_key(moved, keys)
    asked = moved.select(
        F.hex("_order").alias("_heir"),
        F.col("_absent").alias("_missing"),
        _newest_below(cutoffs).alias("_cutoff"),
        *[old[k].alias(f"_o{at}") for at, k in enumerate(keys)],
    ).dropDuplicates(["_heir"])
    same = [F.col(f"_o{at}").eqNullSafe(F.col(f"_k{at}")) for at in range(len(keys))]
    before = (F.col("_at") < F.col("_heir")) & (F.col("_at") > F.col("_cutoff"))
    found = _of_last_life(asked.join(_donors(donors, keys, partial), [*same, before]))
    return found.groupBy("_heir").agg(
        *[_newest(at, donors.schema[c]).alias(f"_g{at}") for at, c in enumerate(partial)]
    )


def _newest_below(cutoffs: list[Cutoff]) -> Column:
    """The newest cut-off before the row, in hex; empty without one."""
    known = F.from_json(
        F.lit(json.dumps([c.order.hex().upper() for c in cutoffs])), "array<string>"
    )
    below = F.filter(known, lambda order: order < F.hex("_order"))
    return F.coalesce(F.array_max(below), F.lit(""))


def _old_key(rows: DataFrame, keys: list[str]) -> Column:
    """The columns of the key that a row came from, in the types of its own."""
    schema = ", ".join(f"{quote(k)} {rows.schema[k].dataType.simpleString()}" for k in keys)
    return F.from_json("_old_key", schema)


def _of_last_life(found: DataFrame) -> DataFrame:
    """Of the changes found for each insert, the upserts that no delete separates from the last."""
    # The fold sees one key at a time; a key change spans two. Few batches have one.
    heir = Window.partitionBy("_heir")
    life = F.count(F.when(~F.col("_upsert"), True)).over(heir.orderBy("_at"))
    upserts = found.withColumn("_life", life).where("_upsert")
    return upserts.withColumn("_last", F.max("_life").over(heir)).where("_life = _last")


def _links(given: DataFrame, partial: list[str]) -> Links:
    via = [F.col(f"_g{at}.via") for at in range(len(partial))]
    linked = given.where(reduce(Column.__or__, [order.isNotNull() for order in via]))
    rows = linked.select("_heir", F.array(*via).alias("via")).collect()
    return {
        (row["_heir"], at): order
        for row in rows
        for at, order in enumerate(row["via"])
        if order is not None
    }


def _through(given: DataFrame, ends: Links, partial: list[str]) -> DataFrame:
    """The same, with what the ends of the chains are given in place of the links to them."""
    rows = [{"_linked": heir, "_column": at, "_end": end} for (heir, at), end in ends.items()]
    chains = local_rows(given.sparkSession, rows, "_linked string, _column int, _end string")
    found = chains.join(given, F.col("_end") == F.col("_heir"))
    own = [
        F.first(F.when(F.col("_column") == at, F.col(f"_g{at}")), ignorenulls=True).alias(f"_e{at}")
        for at in range(len(partial))
    ]
    ended = found.groupBy("_linked").agg(*own)
    joined = given.join(ended, F.col("_heir") == F.col("_linked"), "left")
    taken = [F.coalesce(f"_e{at}", f"_g{at}").alias(f"_g{at}") for at in range(len(partial))]
    return joined.select("_heir", *taken)


def _donors(changes: DataFrame, keys: list[str], partial: list[str]) -> DataFrame:
    """Each change as what it gives of every column: a value, a link, or nothing."""
    upsert, order, gives = F.col("_operation") == UPSERT, F.hex("_order"), []
    for c in partial:
        lacks = F.coalesce(F.array_contains("_absent", c), F.lit(False))
        value = F.when(~lacks, column(c)).alias("v")
        via = F.when(lacks, order).alias("via")
        links = F.col("_old_key").isNotNull()
        gives.append(F.when(upsert & (~lacks | links), F.struct(value, via)))
    return changes.select(
        *[column(k).alias(f"_k{at}") for at, k in enumerate(keys)],
        order.alias("_at"),
        upsert.alias("_upsert"),
        *[give.alias(f"_c{at}") for at, give in enumerate(gives)],
    )


def _newest(at: int, field: StructField) -> Column:
    """What is given of a column: null by a life in which no change carried it."""
    missing, given = F.array_contains("_missing", field.name), F.col(f"_c{at}")
    newest = F.max_by(given, F.when(missing & given.isNotNull(), F.col("_at")))
    null = F.struct(
        F.lit(None).cast(field.dataType).alias("v"), F.lit(None).cast("string").alias("via")
    )
    return F.coalesce(newest, null)


def _filled(joined: DataFrame, columns: list[str], partial: list[str]) -> DataFrame:
    missing = {c: F.coalesce(F.array_contains("_absent", c), F.lit(False)) for c in partial}
    takes = {
        c: all_of([missing[c], F.col(f"_g{at}").isNotNull(), F.col(f"_g{at}.via").isNull()])
        for at, c in enumerate(partial)
    }
    given = [F.when(takes[c], F.lit(c)) for c in partial]
    left = F.array_except("_absent", F.array_compact(F.array(*given)))
    values = {
        c: F.when(takes[c], F.col(f"_g{at}.v")).otherwise(column(c)).alias(c)
        for at, c in enumerate(partial)
    }
    values["_absent"] = F.when(F.size(left) > 0, left).alias("_absent")
    return joined.select(*[values[c] if c in values else column(c) for c in columns])
