"""Sequences of typed columns, as Spark columns.

Their form: see `silver.decode.values.sequences`.
"""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.decode.values.sequences import WIDTH

_TEXT_FORM = r"\A[0-9A-Fa-f]{1,16}(/[0-9A-Fa-f]{1,16}){0,3}\z"
_UNSIGNED = "decimal(20,0)"
_TWO_TO_64 = "18446744073709551616"


def section(value: Column) -> Column:
    """One section from a whole number; null where it is null, negative or above 2^64 - 1.

    The number is a bigint or narrower, or a decimal of scale 0.
    """
    small = value.try_cast("bigint")
    return F.when(small >= 0, _of_bigint(small)).when(small.isNull(), _beyond_bigint(value))


def canonical(text: Column) -> Column:
    """BigQuery's text form (1 to 4 hex sections, either case) as the canonical form, else null."""
    sections = F.transform(F.split(F.upper(text), "/"), lambda part: F.lpad(part, WIDTH, "0"))
    return F.when(text.rlike(_TEXT_FORM), F.array_join(sections, "/"))


def from_column(value: Column, data_type: T.DataType) -> Column:
    """The sequence a typed column stands for; null for a null and for a type without an order.

    Whole numbers stand for themselves, timestamps for microseconds and dates for days since 1970,
    strings for BigQuery's text form (which alone can give several sections).
    """
    whole = isinstance(data_type, T.IntegralType)
    if whole or (isinstance(data_type, T.DecimalType) and data_type.scale == 0):
        return section(value)
    if isinstance(data_type, T.TimestampType | T.TimestampNTZType):
        return section(F.unix_micros(value.cast("timestamp")))
    if isinstance(data_type, T.DateType):
        return section(F.unix_date(value))
    text = isinstance(data_type, T.StringType)
    return canonical(value) if text else F.lit(None).cast("string")


def join(*sections: Column) -> Column:
    """Sections in order of weight as one sequence; null when any of them is null."""
    return reduce(lambda first, second: F.concat(first, F.lit("/"), second), sections)


def _of_bigint(value: Column) -> Column:
    return F.lpad(F.hex(value), WIDTH, "0")


def _beyond_bigint(value: Column) -> Column:
    number, limit = value.try_cast(_UNSIGNED), F.lit(_TWO_TO_64).cast(_UNSIGNED)
    return F.when((number > 0) & (number < limit), _of_bigint((number - limit).cast("bigint")))
