"""Which columns a change does not carry though its row has them: nulls to ignore, named columns."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.names import quote
from lakehouse.table import Table
from silver.contract import UPSERT
from silver.flat import names_array
from silver.json_text import elements


def nulls_to_ignore(table: Table, columns: Sequence[str]) -> Column:
    """Names of the columns whose null means "absent" in this row, by `ignore_null_updates`."""
    chosen = table.ignore_null_updates
    names = columns if chosen is True else [n for n in columns if n in (chosen or [])]
    marks = [F.when(F.col(quote(name)).isNull(), F.lit(name)) for name in names]
    return F.array_compact(F.array(*marks)) if marks else names_array([])


def absent_before(late: Mapping[str, int], operation: Column, absent: Column) -> Column:
    """What rows with a `_batch` do not carry: `absent`, and the columns that came after that."""
    unknown = [F.when(F.col("_batch") < batch, F.lit(name)) for name, batch in late.items()]
    given = F.coalesce(absent, names_array([]))
    found = F.array_union(given, F.array_compact(F.array(*unknown)))
    return F.when((operation == UPSERT) & (F.size(found) > 0), found)


def named_columns(text: Column) -> Column:
    """The names in a `columns_to_update` value: a JSON array, or names with commas between.

    Null when the row names none at all, which means that it carries every column it has.
    """
    listed = F.transform(F.split(text, ","), lambda name: F.trim(name))
    return F.coalesce(elements(text, T.StringType()), listed)
