"""When a change happened at its source, out of what rows and virtual timestamps say."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.names import quote
from lakehouse.table import Table
from silver.casting import typed

# Below it a count since 1970 is in seconds, times a thousand milliseconds, and so on: as seconds
# it is the year 5138, as milliseconds the spring of 1973.
_SMALLEST_MILLISECONDS = 10**11


def row_time(frame: DataFrame, table: Table, otherwise: Sequence[Column] = ()) -> Column:
    """The time in `source.time_column`, else the first of `otherwise`, which are timestamps."""
    names = [feed.time_column for feed in table.feeds if feed.time_column in frame.columns]
    named = [_moment(frame, name) for name in names if name]
    return F.coalesce(*named, *otherwise, F.lit(None)).cast("timestamp")


def from_count(count: Column) -> Column:
    """A whole number of seconds, milli-, micro- or nanoseconds since 1970, told by its size.

    Null for a negative one.
    """
    size = F.lit(_SMALLEST_MILLISECONDS)
    micros = (
        F.when(count < size, count * 1_000_000)
        .when(count < size * 1_000, count * 1_000)
        .when(count < size * 1_000_000, count)
        .otherwise((count.cast("decimal(20,0)") / 1_000).cast("bigint"))
    )
    return F.when(count >= 0, F.timestamp_micros(micros))


def _moment(frame: DataFrame, name: str) -> Column:
    type, value = frame.schema[name].dataType, F.col(quote(name))
    if isinstance(type, T.IntegralType):
        return from_count(value.cast("bigint"))
    if isinstance(type, T.StringType):
        return typed(value, T.TimestampType())
    return value.try_cast("timestamp")
