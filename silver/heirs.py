"""Rows that moved to a new key and left a large value untouched: only the old key knows it.

PostgreSQL sends a key change as the delete of the old key and the insert of the new one; a TOAST
value that the change did not touch is a placeholder in that insert. Its value is what the old key
had before: the newest one that a change carried in the last life of that key, in this batch or in
what the table holds of it (tombstones keep their values). A life ends with a delete or a truncate;
what none of its changes carried is null.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.local_rows import local_rows
from lakehouse.names import quote
from silver.compact import all_of, column
from silver.contract import UPSERT
from silver.floors import newest_below
from silver.snapshots import Truncate

Links = Mapping[tuple[str, int], str]


def inherit(
    changes: DataFrame,
    held: DataFrame | None,
    keys: list[str],
    partial: list[str],
    floors: list[Truncate],
) -> DataFrame:
    """Fills what stamped inserts under a new key left out, where the old key knows it.

    A row that moved more than once in the batch is followed back to where its value was carried:
    of that, the stamps (never values) of such inserts come to the driver.

    Args:
        changes: stamped upserts and deletes of one batch.
        held: keys, columns, `_stamp`, `_operation` and `_absent` of what the table holds of each
            key; None when empty.
        keys: the key columns.
        partial: columns that some change of the batch does not carry.
        floors: the truncates in force, oldest first.

    Returns:
        The changes; a filled column is no longer in `_absent`. Where nothing is known of the old
        key it stays absent.
    """
    given = _given(changes, held, keys, partial, floors)
    links = _links(given, partial)
    if links:
        given = _through(given, roots(links), partial)
    joined = changes.join(given, F.col("_stamp") == F.col("_heir"), "left")
    return _filled(joined, changes.columns, partial)


def roots(links: Links) -> Links:
    """Where each chain of inserts, by stamp and column, ends: at one that is no link itself.

    A donor's stamp is lower than that of its heir, so its own end is known first.
    """
    found: dict[tuple[str, int], str] = {}
    for (heir, at), donor in sorted(links.items()):
        found[heir, at] = found.get((donor, at), donor)
    return found


def _given(
    changes: DataFrame,
    held: DataFrame | None,
    keys: list[str],
    partial: list[str],
    floors: list[Truncate],
) -> DataFrame:
    """Per insert under a new key, `_heir`, what the old key gives: `_g0`, `_g1`, … by column.

    Each is, of the old key's last life before it, the value `v` of the newest change that carries
    the column, or the stamp `via` of an insert that is newer than that and lacks the column as
    well: it takes it from there.
    """
    heirs = changes.where("_old_key IS NOT NULL AND _absent IS NOT NULL")
    old = _old_key(changes, keys)
    asked = heirs.select(
        F.col("_stamp").alias("_heir"),
        F.col("_absent").alias("_missing"),
        F.coalesce(newest_below(floors), F.lit("")).alias("_floor"),
        *[old[k].alias(f"_o{at}") for at, k in enumerate(keys)],
    )
    donors = _donors(changes, held, keys, partial)
    same = [F.col(f"_o{at}").eqNullSafe(F.col(f"_k{at}")) for at in range(len(keys))]
    before = (F.col("_at") < F.col("_heir")) & (F.col("_at") > F.col("_floor"))
    found = _of_last_life(asked.join(donors, [*same, before]))
    return found.groupBy("_heir").agg(
        *[_newest(at, changes.schema[c]).alias(f"_g{at}") for at, c in enumerate(partial)]
    )


def _old_key(rows: DataFrame, keys: list[str]) -> Column:
    """The columns of the key that a row came from, in the types of its own."""
    schema = ", ".join(f"{quote(k)} {rows.schema[k].dataType.simpleString()}" for k in keys)
    return F.from_json("_old_key", schema)


def _of_last_life(found: DataFrame) -> DataFrame:
    """Of the changes found for each insert, the upserts that no delete separates from the last."""
    heir = Window.partitionBy("_heir")
    life = F.count(F.when(~F.col("_upsert"), True)).over(heir.orderBy("_at"))
    upserts = found.withColumn("_life", life).where("_upsert")
    return upserts.withColumn("_last", F.max("_life").over(heir)).where("_life = _last")


def _links(given: DataFrame, partial: list[str]) -> Links:
    via = [F.col(f"_g{at}.via") for at in range(len(partial))]
    linked = given.where(reduce(Column.__or__, [stamp.isNotNull() for stamp in via]))
    rows = linked.select("_heir", F.array(*via).alias("via")).collect()
    return {
        (row["_heir"], at): stamp
        for row in rows
        for at, stamp in enumerate(row["via"])
        if stamp is not None
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


def _donors(
    changes: DataFrame, held: DataFrame | None, keys: list[str], partial: list[str]
) -> DataFrame:
    """Each change as what it gives of every column: a value, a link, or nothing."""

    def known(rows: DataFrame, links: Column) -> DataFrame:
        upsert, gives = F.col("_operation") == UPSERT, []
        for c in partial:
            lacks = F.coalesce(F.array_contains("_absent", c), F.lit(False))
            value = F.when(~lacks, column(c)).alias("v")
            via = F.when(lacks, F.col("_stamp")).alias("via")
            gives.append(F.when(upsert & (~lacks | links), F.struct(value, via)))
        return rows.select(
            *[column(k).alias(f"_k{at}") for at, k in enumerate(keys)],
            F.col("_stamp").alias("_at"),
            upsert.alias("_upsert"),
            *[give.alias(f"_c{at}") for at, give in enumerate(gives)],
        )

    own = known(changes, F.col("_old_key").isNotNull())
    return own if held is None else own.unionByName(known(held, F.lit(False)))


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


def disordered(earlier: DataFrame, batch: DataFrame, keys: list[str]) -> bool:
    """Whether a key change and a change of its old key came in the wrong order, over two batches.

    Then the value that moved cannot be told from the batch and the table's newest rows: the table
    is folded anew from its change log. Both sides are stamped upserts and deletes.
    """
    crossed = _crossed(earlier, batch, keys, heir_earlier=True)
    return not crossed.unionByName(_crossed(batch, earlier, keys, heir_earlier=False)).isEmpty()


def _crossed(heirs: DataFrame, others: DataFrame, keys: list[str], heir_earlier: bool) -> DataFrame:
    old = _old_key(heirs, keys)
    moved = heirs.where("_old_key IS NOT NULL AND _absent IS NOT NULL").select(
        F.col("_stamp").alias("_heir"), *[old[k].alias(f"_o{at}") for at, k in enumerate(keys)]
    )
    same = [F.col(f"_o{at}") == column(k) for at, k in enumerate(keys)]
    order = F.col("_stamp") < F.col("_heir") if heir_earlier else F.col("_stamp") > F.col("_heir")
    return moved.join(others, [*same, order]).select("_heir").limit(1)
