"""Columns with an order of their own: `sequence_groups`.

A group's columns, and the column that it is ordered by, take the values of the change with the
highest sequence of the group, whatever the order of the rows. A change in which the group's
sequence is null leaves the group alone: it does not carry those columns.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.names import quote
from lakehouse.table import Table
from silver.contract import UPSERT
from silver.expressions import evaluated, with_named_columns
from silver.flat import names_array
from silver.sequence import from_column

_ORDERS = "a whole number from 0 on, a timestamp or date since 1970, or text of 1 to 4 hex sections"


def members(table: Table) -> list[list[str]]:
    """The columns of each group.

    The column that a group is ordered by is one of them, unless it orders the rows or an earlier
    group, too.
    """
    taken = {
        *table.keys,
        *_row_order(table),
        *(c for g in table.sequence_groups for c in g.columns),
    }
    found = []
    for group in table.sequence_groups:
        own = [] if group.sequence_by in taken else [group.sequence_by]
        taken.update(own)
        found.append([*group.columns, *own])
    return found


def grouped(table: Table) -> list[str]:
    """All columns that have an order of their own."""
    return [name for group in members(table) for name in group]


def with_group_sequences(changes: DataFrame, table: Table) -> DataFrame:
    """Decoded changes with `_group_sequences`, and with the groups that they leave alone absent.

    A sequence that is neither null nor an order makes the change a dead letter (`bad_sequence`).
    """
    if not table.sequence_groups:
        return changes
    orders = [group.sequence_by for group in table.sequence_groups]
    complete = with_named_columns(changes, orders)
    given = [evaluated(complete, order).alias(f"__group_{n}") for n, order in enumerate(orders)]
    frame = complete.select("*", *given)
    types = [frame.schema[f"__group_{n}"].dataType for n in range(len(orders))]
    sequences = [from_column(F.col(f"__group_{n}"), type) for n, type in enumerate(types)]
    upsert = F.coalesce(F.col("_operation") == UPSERT, F.lit(False))
    wrong = F.when(upsert, _wrong(orders, types, sequences))
    judged = frame.withColumn("__wrong", wrong).withColumns(
        {
            "_absent": F.when(upsert, _absent(table, sequences, changes.columns)),
            "_group_sequences": F.when(upsert, _by_column(table, sequences, changes.columns)),
        }
    )
    return _refused(judged).select(*[F.col(quote(name)) for name in changes.columns])


def _row_order(table: Table) -> list[str]:
    order = table.sequence_by or []
    return [order] if isinstance(order, str) else order


def _wrong(orders: list[str], types: list[T.DataType], sequences: list[Column]) -> Column:
    found = [
        F.when(
            F.col(f"__group_{n}").isNotNull() & sequences[n].isNull(),
            F.concat(
                F.lit(f"sequence_groups[{n}].sequence_by {order}: found "),
                F.col(f"__group_{n}").cast("string"),
                F.lit(f" ({types[n].simpleString()}), expected {_ORDERS}"),
            ),
        )
        for n, order in enumerate(orders)
    ]
    return F.coalesce(*found)


def _absent(table: Table, sequences: list[Column], columns: list[str]) -> Column:
    alone = [
        F.when(sequence.isNull(), names_array(c for c in group if c in columns)).otherwise(
            names_array([])
        )
        for group, sequence in zip(members(table), sequences, strict=True)
    ]
    left = F.array_union(F.coalesce("_absent", names_array([])), F.flatten(F.array(*alone)))
    return F.when(F.size(left) > 0, left)


def _by_column(table: Table, sequences: list[Column], columns: list[str]) -> Column:
    entries = [
        F.when(sequence.isNotNull(), F.struct(F.lit(name).alias("key"), sequence.alias("value")))
        for group, sequence in zip(members(table), sequences, strict=True)
        for name in group
        if name in columns
    ]
    if not entries:
        return F.lit(None).cast("map<string,string>")
    kept = F.array_compact(F.array(*entries))
    return F.when(F.size(kept) > 0, F.map_from_entries(kept))


def _refused(judged: DataFrame) -> DataFrame:
    bad = F.col("__wrong").isNotNull()
    gone = {name: F.when(~bad, F.col(name)) for name in ("_operation", "_absent")}
    gone["_group_sequences"] = F.when(~bad, F.col("_group_sequences"))
    gone["_reason"] = F.when(bad, F.lit("bad_sequence")).otherwise(F.col("_reason"))
    gone["_message"] = F.when(bad, F.col("__wrong")).otherwise(F.col("_message"))
    return judged.withColumns(gone)
