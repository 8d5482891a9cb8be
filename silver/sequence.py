"""One string per change that sorts in source commit order.

The canonical form is BigQuery's made fixed in width: up to four sections, each an unsigned 64-bit
number as 16 upper-case hex digits, joined by `/`. Plain string order is then the order of the
numbers, section by section, and a prefix sorts before what it begins.
"""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

WIDTH = 16
MOST_SECTIONS = 4
LONGEST = MOST_SECTIONS * (WIDTH + 1) - 1
_TEXT_FORM = r"\A[0-9A-Fa-f]{1,16}(/[0-9A-Fa-f]{1,16}){0,3}\z"
_UNSIGNED = "decimal(20,0)"
_TWO_TO_64 = "18446744073709551616"


def section(value: Column) -> Column:
    """One section from a whole number; null where it is null, negative or above 2^64 - 1.

    Only whole-number types are meant: bigint and narrower, or a decimal of scale 0.
    """
    small = value.try_cast("bigint")
    return F.when(small >= 0, of_bigint(small)).when(small.isNull(), _beyond_bigint(value))


def of_bigint(value: Column) -> Column:
    """One section from a bigint that is not negative."""
    return F.lpad(F.hex(value), WIDTH, "0")


def canonical(text: Column) -> Column:
    """BigQuery's text form (1 to 4 hex sections, either case) as the canonical form, else null."""
    sections = F.transform(F.split(F.upper(text), "/"), lambda part: F.lpad(part, WIDTH, "0"))
    return F.when(text.rlike(_TEXT_FORM), F.array_join(sections, "/"))


def from_column(value: Column, type: T.DataType) -> Column:
    """The sequence a typed column stands for; null for a null and for a type without an order.

    Whole numbers stand for themselves, timestamps for microseconds and dates for days since 1970,
    strings for BigQuery's text form (which alone can give several sections).
    """
    if isinstance(type, T.IntegralType) or (isinstance(type, T.DecimalType) and type.scale == 0):
        return section(value)
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        return section(F.unix_micros(value.cast("timestamp")))
    if isinstance(type, T.DateType):
        return section(F.unix_date(value))
    return canonical(value) if isinstance(type, T.StringType) else F.lit(None).cast("string")


def join(*sections: Column) -> Column:
    """Sections in order of weight as one sequence; null when any of them is null."""
    return reduce(lambda first, second: F.concat(first, F.lit("/"), second), sections)


def literal(start: str | list[int]) -> str:
    """A sequence written in YAML: numbers, one section each, or BigQuery's text form."""
    numbers = start if isinstance(start, list) else [int(part, 16) for part in start.split("/")]
    return "/".join(f"{number:0{WIDTH}X}" for number in numbers)


def _beyond_bigint(value: Column) -> Column:
    number, limit = value.try_cast(_UNSIGNED), F.lit(_TWO_TO_64).cast(_UNSIGNED)
    return F.when((number > 0) & (number < limit), of_bigint((number - limit).cast("bigint")))
