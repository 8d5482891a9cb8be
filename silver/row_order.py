"""The order that `sequence_by` gives to flat rows: one section per column or expression."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.table import Table
from silver.expressions import columns_named, evaluated
from silver.sequence import LONGEST, from_column, join, section

_ORDERS = "whole numbers from 0 on, timestamps or dates since 1970, or text of 1 to 4 hex sections"


def orders(table: Table) -> list[str]:
    """The columns and expressions that `sequence_by` names."""
    order = table.sequence_by or []
    return [order] if isinstance(order, str) else order


def underscored(expressions: list[str]) -> list[str]:
    """Names in expressions with an underscore in front: read for them, and no columns."""
    named = [name for one in expressions for name in (one, *columns_named(one))]
    return [name for name in named if name.startswith("_")]


def placed(frame: DataFrame, table: Table) -> DataFrame:
    """The frame, which has every column that is named, with the orders as `__order_n`."""
    found = enumerate(orders(table))
    return frame.select("*", *(evaluated(frame, one).alias(f"__order_{n}") for n, one in found))


def types_of(frame: DataFrame) -> list[T.DataType]:
    """The types of a frame's orders."""
    return [field.dataType for field in frame.schema if field.name.startswith("__order_")]


def sequence(types: list[T.DataType]) -> Column:
    """The sequence of a row; null where an order is null or no order, or sections are too many."""
    if not types:
        return section(F.lit(0))
    found = join(*(from_column(F.col(f"__order_{n}"), type) for n, type in enumerate(types)))
    return F.when(F.length(found) <= LONGEST, found)


def moments(types: list[T.DataType]) -> list[Column]:
    """The orders that are timestamps."""
    times = T.TimestampType | T.TimestampNTZType
    found = (F.col(f"__order_{n}") for n, type in enumerate(types) if isinstance(type, times))
    return [order.cast("timestamp") for order in found]


def found(types: list[T.DataType]) -> Column:
    """What was found and what was expected, for a person."""
    shown = (
        F.concat(
            F.coalesce(F.col(f"__order_{n}").cast("string"), F.lit("null")),
            F.lit(f" ({type.simpleString()})"),
        )
        for n, type in enumerate(types)
    )
    values = F.concat_ws(", ", *shown)
    return F.concat(F.lit("sequence_by: found "), values, F.lit(f", expected {_ORDERS}"))
