"""Columns with an order of their own: `sequence_groups`.

A group's columns, and the column that it is ordered by, take the values of the change with the
highest sequence of the group, whatever the order of the rows. A change in which the group's
sequence is null leaves the group alone: it does not carry those columns.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.config.table import Table
from lakehouse.storage.names import quote
from silver.contract import UPSERT
from silver.decode.change import BAD_SEQUENCE, BAD_VALUE
from silver.decode.columns import is_published
from silver.decode.expressions.evaluation import (
    TIMES,
    evaluate_expression,
    finer_of,
    layer_column,
    replace_columns,
    restore_columns,
    with_members,
)
from silver.decode.expressions.names import group_members, group_orders
from silver.decode.expressions.sequence_columns import from_column, with_finer

_ORDERS = "a whole number from 0 on, a timestamp or date since 1970, or text of 1 to 4 hex sections"


class _Group(NamedTuple):
    """A group's order as evaluated, its type and sequence, and the columns that follow it."""

    order: Column
    type: T.DataType
    sequence: Column
    columns: list[str]


def with_group_sequences(changes: DataFrame, table: Table) -> DataFrame:
    """Decoded changes with `_group_sequences`, and with the groups that they leave alone absent.

    A group's sequence that is neither null nor an order makes the change a dead letter
    (`bad_sequence`), and so does a null in a column of a group that must have a value and that the
    change carries (`bad_value`).
    """
    if not table.sequence_groups:
        return changes
    members = with_members(changes, group_orders(table))
    orders = enumerate(group_orders(table))
    frame = members.select(
        "*", *(evaluate_expression(members, order).alias(f"__group_{at}") for at, order in orders)
    )
    groups = _evaluate_groups(frame, table, changes.columns)
    upsert = F.coalesce(
        (layer_column("_operation") == UPSERT) & layer_column("_reason").isNull(), F.lit(False)
    )
    wrong = F.when(upsert, _describe_bad_order(table, groups))
    absent = _find_absent(groups)
    null = F.when(upsert & wrong.isNull(), _describe_null(table, groups, absent))
    bad = wrong.isNotNull() | null.isNotNull()
    reason = F.when(wrong.isNotNull(), BAD_SEQUENCE).when(null.isNotNull(), BAD_VALUE)
    settled = replace_columns(
        frame,
        {
            "_operation": F.when(~bad, layer_column("_operation")),
            "_absent": F.when(upsert & ~bad, absent),
            "_group_sequences": F.when(upsert & ~bad, _by_column(groups)),
            "_reason": F.coalesce(reason, layer_column("_reason")),
            "_message": F.coalesce(wrong, null, layer_column("_message")),
        },
    )
    return restore_columns(settled, changes.columns)


def _evaluate_groups(frame: DataFrame, table: Table, columns: Sequence[str]) -> list[_Group]:
    groups = []
    for at, (name, members) in enumerate(
        zip(group_orders(table), group_members(table), strict=True)
    ):
        order, data_type = F.col(f"__group_{at}"), frame.schema[f"__group_{at}"].dataType
        sequence = from_column(order, data_type)
        finer = finer_of(frame, name, order) if isinstance(data_type, TIMES) else None
        sequence = sequence if finer is None else with_finer(sequence, finer)
        groups.append(_Group(order, data_type, sequence, [n for n in members if n in columns]))
    return groups


def _describe_bad_order(table: Table, groups: list[_Group]) -> Column:
    """The first order that is neither null nor an order, in words."""
    messages = [
        F.when(
            group.order.isNotNull() & group.sequence.isNull(),
            F.concat(
                F.lit(f"sequence_groups[{at}].sequence_by {order}: found "),
                group.order.cast("string"),
                F.lit(f" ({group.type.simpleString()}), expected {_ORDERS}"),
            ),
        )
        for at, (order, group) in enumerate(zip(group_orders(table), groups, strict=True))
    ]
    return F.coalesce(*messages)


def _find_absent(groups: list[_Group]) -> Column:
    alone = [
        F.when(group.sequence.isNull(), _names_array(group.columns)).otherwise(_names_array([]))
        for group in groups
    ]
    left = F.array_union(
        F.coalesce(layer_column("_absent"), _names_array([])), F.flatten(F.array(*alone))
    )
    return F.when(F.size(left) > 0, left)


def _describe_null(table: Table, groups: list[_Group], absent: Column) -> Column:
    """The first null where the change carries a column that must have a value, in words."""
    required = [
        name
        for group in groups
        for name in group.columns
        if name in table.columns and not table.columns[name].nullable and is_published(table, name)
    ]
    messages = [
        F.when(
            F.col(quote(name)).isNull() & ~F.coalesce(F.array_contains(absent, name), F.lit(False)),
            F.lit(f"column {name}: found null, expected a value (nullable: false)"),
        )
        for name in required
    ]
    return F.coalesce(*messages, F.lit(None).cast("string"))


def _by_column(groups: list[_Group]) -> Column:
    entries = [
        F.when(
            group.sequence.isNotNull(),
            F.struct(F.lit(name).alias("key"), group.sequence.alias("value")),
        )
        for group in groups
        for name in group.columns
    ]
    if not entries:
        return F.lit(None).cast("map<string,string>")
    kept = F.array_compact(F.array(*entries))
    return F.when(F.size(kept) > 0, F.map_from_entries(kept))


def _names_array(names: Iterable[str]) -> Column:
    return F.array(*map(F.lit, names)).cast("array<string>")
