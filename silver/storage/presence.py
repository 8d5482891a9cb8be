"""Which columns a change does not carry: what the change log says of them."""

from collections.abc import Iterable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from silver.contract import UPSERT


def names_array(names: Iterable[str]) -> Column:
    """Names as an array of strings, also when there are none."""
    return F.array(*map(F.lit, names)).cast("array<string>")


def absent_before(late: Mapping[str, int], operation: Column, absent: Column) -> Column:
    """What rows with a `_batch` do not carry: `absent`, and the columns that came after that."""
    unknown = [F.when(F.col("_batch") < batch, F.lit(name)) for name, batch in late.items()]
    given = F.coalesce(absent, names_array([]))
    found = F.array_union(given, F.array_compact(F.array(*unknown)))
    return F.when((operation == UPSERT) & (F.size(found) > 0), found)
