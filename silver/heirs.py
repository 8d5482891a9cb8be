"""Rows that moved to a new key and left a large value untouched: only the old key knows it.

PostgreSQL sends a key change as the delete of the old key and the insert of the new one; a TOAST
value that the change did not touch is a placeholder in that insert. Its value is the newest one
that the old key carried before: in this batch, or in what the table holds of the old key
(tombstones keep their values).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from silver.compact import column
from silver.contract import UPSERT

_DEEPEST = 16


def inherit(
    changes: DataFrame, held: DataFrame | None, keys: list[str], partial: list[str]
) -> DataFrame:
    """Fills what stamped inserts under a new key left out, where the old key knows it.

    Args:
        changes: stamped upserts and deletes of one batch.
        held: keys, columns, `_stamp` and `_absent` of what the table holds of each key; None when
            empty.
        keys: the key columns.
        partial: columns that some change of the batch does not carry.

    Returns:
        The changes; a filled column is no longer in `_absent`. What nobody knows stays absent.
    """
    for _ in range(_DEEPEST):
        filled, found = _once(changes, held, keys, partial)
        if not found:
            return filled
        changes = filled
    return changes


def _once(
    changes: DataFrame, held: DataFrame | None, keys: list[str], partial: list[str]
) -> tuple[DataFrame, bool]:
    heirs = changes.where("_old_key IS NOT NULL AND _absent IS NOT NULL")
    schema = ", ".join(f"`{k}` {changes.schema[k].dataType.simpleString()}" for k in keys)
    old = F.from_json("_old_key", schema)
    asked = heirs.select(
        F.col("_stamp").alias("_heir"),
        F.col("_absent").alias("_missing"),
        *[old[k].alias(f"_o{at}") for at, k in enumerate(keys)],
    )
    donors = _donors(changes, held, keys, partial)
    same = [F.col(f"_o{at}").eqNullSafe(F.col(f"_k{at}")) for at in range(len(keys))]
    before = F.col("_at") < F.col("_heir")
    given = (
        asked.join(donors, [*same, before])
        .groupBy("_heir")
        .agg(*[_newest(at, name).alias(f"_g{at}") for at, name in enumerate(partial)])
    )
    given = given.where(" OR ".join(f"_g{at} IS NOT NULL" for at in range(len(partial))))
    if given.isEmpty():
        return changes, False
    joined = changes.join(given, F.col("_stamp") == F.col("_heir"), "left")
    return _filled(joined, changes.columns, partial), True


def _donors(
    changes: DataFrame, held: DataFrame | None, keys: list[str], partial: list[str]
) -> DataFrame:
    def known(rows: DataFrame) -> DataFrame:
        carried = [
            F.when(
                ~F.coalesce(F.array_contains("_absent", c), F.lit(False)),
                F.struct(column(c).alias("v")),
            )
            for c in partial
        ]
        return rows.select(
            *[column(k).alias(f"_k{at}") for at, k in enumerate(keys)],
            F.col("_stamp").alias("_at"),
            *[c.alias(f"_c{at}") for at, c in enumerate(carried)],
        )

    own = known(changes.where(F.col("_operation") == UPSERT))
    return own if held is None else own.unionByName(known(held))


def _newest(at: int, name: str) -> Column:
    asked = F.array_contains("_missing", name) & F.col(f"_c{at}").isNotNull()
    return F.max_by(f"_c{at}", F.when(asked, F.col("_at")))


def _filled(joined: DataFrame, columns: list[str], partial: list[str]) -> DataFrame:
    missing = {c: F.coalesce(F.array_contains("_absent", c), F.lit(False)) for c in partial}
    takes = {c: missing[c] & F.col(f"_g{at}").isNotNull() for at, c in enumerate(partial)}
    given = [F.when(takes[c], F.lit(c)) for c in partial]
    left = F.array_except("_absent", F.array_compact(F.array(*given)))
    values = {
        c: F.when(takes[c], F.col(f"_g{at}")["v"]).otherwise(column(c))
        for at, c in enumerate(partial)
    }
    values["_absent"] = F.when(F.size(left) > 0, left)
    return joined.select(*[values[c].alias(c) if c in values else column(c) for c in columns])


def disordered(earlier: DataFrame, batch: DataFrame, keys: list[str]) -> bool:
    """Whether a key change and a change of its old key came in the wrong order, over two batches.

    Then the value that moved cannot be told from the batch and the table's newest rows: the table
    is folded anew from its change log. Both sides are stamped upserts and deletes.
    """
    crossed = _crossed(earlier, batch, keys, heir_earlier=True)
    return not crossed.unionByName(_crossed(batch, earlier, keys, heir_earlier=False)).isEmpty()


def _crossed(heirs: DataFrame, others: DataFrame, keys: list[str], heir_earlier: bool) -> DataFrame:
    schema = ", ".join(f"`{k}` {heirs.schema[k].dataType.simpleString()}" for k in keys)
    old = F.from_json("_old_key", schema)
    moved = heirs.where("_old_key IS NOT NULL AND _absent IS NOT NULL").select(
        F.col("_stamp").alias("_heir"), *[old[k].alias(f"_o{at}") for at, k in enumerate(keys)]
    )
    same = [F.col(f"_o{at}") == column(k) for at, k in enumerate(keys)]
    order = F.col("_stamp") < F.col("_heir") if heir_earlier else F.col("_stamp") > F.col("_heir")
    return moved.join(others, [*same, order]).select("_heir").limit(1)
