"""Which columns a change does not carry: what the change log says of them."""

from collections.abc import Iterable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from silver.contract import UPSERT


def names_array(names: Iterable[str]) -> Column:
    """Names as an array of strings, also when there are none."""
    return F.array(*map(F.lit, names)).cast("array<string>")


def absent_before(late: Mapping[str, int]) -> Column:
    """The `_absent` of rows with a `_batch`, and in it the columns that only came after that."""
    unknown = [F.when(F.col("_batch") < batch, F.lit(name)) for name, batch in late.items()]
    given = F.coalesce("_absent", names_array([]))
    found = F.array_union(given, F.array_compact(F.array(*unknown)))
    return F.when((F.col("_operation") == UPSERT) & (F.size(found) > 0), found)
