"""Sequences of typed columns, as Spark columns.

Their form: see `silver.decode.values.sequences`.
"""

import json
import re
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.decode.values.sequences import WIDTH

UNSURE = "unsure"
"""In place of digits of a time, that it is not known which they are."""

_TEXT_FORM = r"\A[0-9A-Fa-f]{1,16}(/[0-9A-Fa-f]{1,16}){0,3}\z"
_UNSIGNED = "decimal(20,0)"
_TWO_TO_64 = "18446744073709551616"
_ABOVE = "F" * WIDTH
_UNSIGNED_DIGITS = 20
_DIGITS_BEHIND = 18


def to_section(value: Column) -> Column:
    """One section from a whole number; null where it is null, negative or above 2^64 - 1.

    The number is a bigint or narrower, or a decimal of scale 0.
    """
    small = value.try_cast("bigint")
    return F.when(small >= 0, _of_bigint(small)).when(small.isNull(), _beyond_bigint(value))


def to_canonical(text: Column) -> Column:
    """BigQuery's text form (1 to 4 hex sections, either case) as the canonical form, else null."""
    sections = F.transform(F.split(F.upper(text), "/"), lambda part: F.lpad(part, WIDTH, "0"))
    return F.when(text.rlike(_TEXT_FORM), F.array_join(sections, "/"))


def from_column(value: Column, data_type: T.DataType) -> Column:
    """The sequence a typed column stands for; null for a null and for a type without an order.

    Whole numbers stand for themselves, timestamps for microseconds and dates for days since 1970,
    strings for BigQuery's text form. A number above 2^64 - 2 has three sections: one that is above
    all smaller numbers, and the two halves of the number.
    """
    if isinstance(data_type, T.DecimalType) and data_type.scale == 0:
        wide = data_type.precision >= _UNSIGNED_DIGITS
        return F.coalesce(_small_section(value), _cut_halves(value)) if wide else to_section(value)
    if isinstance(data_type, T.IntegralType):
        return to_section(value)
    if isinstance(data_type, T.TimestampType | T.TimestampNTZType):
        return to_section(F.unix_micros(value.cast("timestamp")))
    if isinstance(data_type, T.DateType):
        return to_section(F.unix_date(value))
    text = isinstance(data_type, T.StringType)
    return to_canonical(value) if text else F.lit(None).cast("string")


def join_columns(*sections: Column) -> Column:
    """Sections in order of weight as one sequence; null when any of them is null."""
    return reduce(lambda first, second: F.concat(first, F.lit("/"), second), sections)


def finer_than_micros(raw: Column, name: str) -> Column:
    """The digits of a second beyond the sixth that a row's text has for a member, as one section.

    They are as many as a number of 18 digits holds; null where all are zero. The member's name may
    be written in any case, as a column's is. `raw` is text or null.
    """
    member = re.escape(json.dumps(name, ensure_ascii=False))
    begin = rf"(?i){member}\s*:\s*\"[^\"]*:\d\d[.,]\d{{6}}"
    digits = F.regexp_extract(raw, rf"{begin}(\d*[1-9])", 1)
    padded = F.rpad(F.substring(digits, 1, _DIGITS_BEHIND), _DIGITS_BEHIND, "0")
    return F.when(raw.rlike(rf"{begin}\d*[1-9]"), to_section(padded.cast("bigint")))


def with_finer(sequence: Column, finer: Column) -> Column:
    """A sequence with a section for the digits that its last one does not hold, where some do.

    Null where it is not known which digits these are.
    """
    is_sure = finer.isNull() | (finer != UNSURE)
    return F.when(is_sure, F.concat(sequence, F.coalesce(F.concat(F.lit("/"), finer), F.lit(""))))


def _small_section(value: Column) -> Column:
    number, top = value.try_cast(_UNSIGNED), F.lit(_TWO_TO_64).cast(_UNSIGNED) - 1
    return F.when(number < top, to_section(value))


def _cut_halves(value: Column) -> Column:
    limit = F.lit(_TWO_TO_64).cast(_UNSIGNED)
    low = (value % limit).cast(_UNSIGNED)
    high = ((value - low) / limit).cast("bigint")
    return F.when(value > 0, join_columns(F.lit(_ABOVE), to_section(high), to_section(low)))


def _of_bigint(value: Column) -> Column:
    return F.lpad(F.hex(value), WIDTH, "0")


def _beyond_bigint(value: Column) -> Column:
    number, limit = value.try_cast(_UNSIGNED), F.lit(_TWO_TO_64).cast(_UNSIGNED)
    return F.when((number > 0) & (number < limit), _of_bigint((number - limit).cast("bigint")))
