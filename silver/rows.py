"""Flat rows of any origin, with an order and operations that the table's YAML spells out.

Without `apply_as_deletes` and `apply_as_truncates` every row is an upsert. `sequence_by` gives one
section per column or expression. A row that leaves columns out changes only the others. Columns
with an underscore in front can be used in those expressions and are no columns of the table, and
neither is the one that `columns_to_update` names.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.table import Table
from silver import flat
from silver.changes import changes, fault, origin
from silver.contract import DELETE, NONE, TRUNCATE, UPSERT
from silver.expressions import columns_named, evaluated, with_named_columns
from silver.presence import named_columns, nulls_to_ignore
from silver.sequence import LONGEST, from_column, join, section
from silver.times import row_time

_ORDERS = "whole numbers from 0 on, timestamps or dates since 1970, or text of 1 to 4 hex sections"


def to_changes(raw: DataFrame, table: Table) -> DataFrame:
    """Decode rows; see `silver.contract` for what comes out."""
    documents = raw.select(origin(), F.col("_raw").alias("__document"))
    found = flat.rows(documents, table, _protocol(table))
    columns = [name for name in found.columns if name != table.columns_to_update]
    ordered = _evaluated(found.frame, table)
    types = [field.dataType for field in ordered.schema if field.name.startswith("__order_")]
    parts = {
        "_operation": F.col("__change"),
        "_sequence": _sequence(types),
        "_absent": F.when(F.col("__change") == UPSERT, _absent(columns, table)),
        "_source_time": row_time(ordered, table, _moments(types)),
    }
    return changes(ordered, columns, _fault(types), parts, found.ignored)


def _orders(table: Table) -> list[str]:
    order = table.sequence_by or []
    return [order] if isinstance(order, str) else order


def _expressions(table: Table) -> list[str]:
    conditions = (table.apply_as_truncates, table.apply_as_deletes)
    return [*_orders(table), *(condition for condition in conditions if condition)]


def _protocol(table: Table) -> dict[str, str | None]:
    named = [name for one in _expressions(table) for name in (one, *columns_named(one))]
    named += [feed.time_column for feed in table.feeds if feed.time_column]
    read: dict[str, str | None] = {name: None for name in named if name.startswith("_")}
    return read | ({table.columns_to_update: "string"} if table.columns_to_update else {})


def _evaluated(frame: DataFrame, table: Table) -> DataFrame:
    complete = with_named_columns(frame, _expressions(table))
    orders = (
        evaluated(complete, order).alias(f"__order_{place}")
        for place, order in enumerate(_orders(table))
    )
    return complete.select("*", *orders, _change(complete, table).alias("__change"))


def _change(frame: DataFrame, table: Table) -> Column:
    change = F.when(F.col("__document").isNull(), NONE)
    if table.apply_as_truncates:
        change = change.when(evaluated(frame, table.apply_as_truncates), TRUNCATE)
    if table.apply_as_deletes:
        change = change.when(evaluated(frame, table.apply_as_deletes), DELETE)
    return change.otherwise(UPSERT)


def _sequence(types: list[T.DataType]) -> Column:
    if not types:
        return section(F.lit(0))
    sections = (from_column(F.col(f"__order_{n}"), type) for n, type in enumerate(types))
    sequence = join(*sections)
    return F.when(F.length(sequence) <= LONGEST, sequence)


def _absent(columns: list[str], table: Table) -> Column:
    parts = [flat.lacking(columns), nulls_to_ignore(table, columns)]
    if table.columns_to_update:
        named = named_columns(F.col("__texts").getField(table.columns_to_update))
        unnamed = F.array_except(flat.names_array(columns), named)
        parts.append(F.coalesce(unnamed, flat.names_array([])))
    return flat.absent(columns, table.keys, *parts)


def _moments(types: list[T.DataType]) -> list[Column]:
    times = T.TimestampType | T.TimestampNTZType
    orders = (F.col(f"__order_{n}") for n, type in enumerate(types) if isinstance(type, times))
    return [order.cast("timestamp") for order in orders]


def _fault(types: list[T.DataType]) -> Column:
    checks = (
        F.when(~F.col("__whole"), fault("not_json", "the row is no JSON object")),
        F.when(F.col("__change") != TRUNCATE, F.col("__key_fault")),
        F.when(F.col("__change") == UPSERT, F.col("__value_fault")),
        F.when(_sequence(types).isNull(), fault("bad_sequence", _found(types))),
    )
    return F.when(F.col("__document").isNotNull(), F.coalesce(*checks))


def _found(types: list[T.DataType]) -> Column:
    shown = (
        F.concat(
            F.coalesce(F.col(f"__order_{n}").cast("string"), F.lit("null")),
            F.lit(f" ({type.simpleString()})"),
        )
        for n, type in enumerate(types)
    )
    found = F.concat_ws(", ", *shown)
    return F.concat(F.lit("sequence_by: found "), found, F.lit(f", expected {_ORDERS}"))
