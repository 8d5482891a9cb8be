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
from silver import flat, row_order
from silver.changes import changes, fault, origin
from silver.contract import DELETE, NONE, TRUNCATE, UPSERT
from silver.expressions import evaluated, with_named_columns
from silver.presence import named_columns, nulls_to_ignore
from silver.times import row_time


def to_changes(raw: DataFrame, table: Table) -> DataFrame:
    """Decode rows; see `silver.contract` for what comes out."""
    documents = raw.select(origin(), F.col("_raw").alias("__document"))
    found = flat.rows(documents, table, _protocol(table))
    columns = [name for name in found.columns if name != table.columns_to_update]
    ordered = _evaluated(found.frame, table)
    types = row_order.types_of(ordered)
    parts = {
        "_operation": F.col("__change"),
        "_sequence": row_order.sequence(types),
        "_absent": F.when(F.col("__change") == UPSERT, _absent(columns, table)),
        "_source_time": row_time(ordered, table, row_order.moments(types)),
    }
    return changes(ordered, columns, _fault(types), parts, found.ignored)


def _expressions(table: Table) -> list[str]:
    conditions = (table.apply_as_truncates, table.apply_as_deletes)
    return [*row_order.orders(table), *(condition for condition in conditions if condition)]


def _protocol(table: Table) -> dict[str, str | None]:
    times = [feed.time_column for feed in table.feeds if feed.time_column]
    named = row_order.underscored([*_expressions(table), *times])
    read: dict[str, str | None] = dict.fromkeys(named)
    return read | ({table.columns_to_update: "string"} if table.columns_to_update else {})


def _evaluated(frame: DataFrame, table: Table) -> DataFrame:
    complete = with_named_columns(frame, _expressions(table))
    return row_order.placed(complete, table).select("*", _change(complete, table).alias("__change"))


def _change(frame: DataFrame, table: Table) -> Column:
    change = F.when(F.col("__document").isNull(), NONE)
    if table.apply_as_truncates:
        change = change.when(evaluated(frame, table.apply_as_truncates), TRUNCATE)
    if table.apply_as_deletes:
        change = change.when(evaluated(frame, table.apply_as_deletes), DELETE)
    return change.otherwise(UPSERT)


def _absent(columns: list[str], table: Table) -> Column:
    parts = [flat.lacking(columns), nulls_to_ignore(table, columns)]
    if table.columns_to_update:
        named = named_columns(F.col("__texts").getField(table.columns_to_update))
        unnamed = F.array_except(flat.names_array(columns), named)
        parts.append(F.coalesce(unnamed, flat.names_array([])))
    return flat.absent(columns, table.keys, *parts)


def _fault(types: list[T.DataType]) -> Column:
    checks = (
        F.when(~F.col("__whole"), fault("not_json", "the row is no JSON object")),
        F.when(F.col("__change") != TRUNCATE, F.col("__key_fault")),
        F.when(F.col("__change") == UPSERT, F.col("__value_fault")),
        F.when(row_order.sequence(types).isNull(), fault("bad_sequence", row_order.found(types))),
    )
    return F.when(F.col("__document").isNotNull(), F.coalesce(*checks))
