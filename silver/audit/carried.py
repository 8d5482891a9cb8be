"""The columns that a change carries, and their values as JSON text for a person."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.words import JSON_OPTIONS
from silver.storage.row_columns import column

HIDDEN = "(sensitive)"


def listed(columns: Sequence[str]) -> Column:
    """The names as an array."""
    return F.array(*[F.lit(name) for name in columns]).cast("array<string>")


def carried(columns: Sequence[str]) -> Column:
    """Those of the columns that the change carries."""
    return F.array_except(listed(columns), F.coalesce("_absent", listed([])))


def as_json(table: Table, columns: Sequence[str], chosen: Column) -> Column:
    """The values of the columns in the array `chosen` as one JSON object; digits are kept.

    A sensitive value is not shown.
    """
    members = [F.when(F.array_contains(chosen, name), _member(table, name)) for name in columns]
    there = F.array_compact(F.array(*members, F.lit(None).cast("string")))
    return F.concat(F.lit("{"), F.array_join(there, ", "), F.lit("}"))


def _member(table: Table, name: str) -> Column:
    hidden = name in table.columns and table.columns[name].sensitive
    value = F.when(column(name).isNotNull(), F.lit(HIDDEN)) if hidden else column(name)
    text = F.to_json(F.struct(value.alias(name)), JSON_OPTIONS)
    return F.substring(text, F.lit(2), F.length(text) - 2)
