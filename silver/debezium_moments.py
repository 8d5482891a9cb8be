"""Dates, times and timestamps from Debezium's ticks and texts.

Spark and Python share the years 1 to 9999. What lies after them is held at their last moment (that is
PostgreSQL's `infinity` in all its encodings), `-infinity` at their first; any other earlier moment
does not fit and is null.
"""

from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

Unit = Literal["guess", "ms", "us", "ns"]

_WHOLE = r"\A-?[0-9]+\z"
_DATE = r"\A[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}"
_AFTER_9999 = r"\A(infinity|\+?[0-9]{5,}-)"
_BEFORE_1 = r"\A(-infinity|-[0-9]{6,}-)"
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_INFINITE_DAY, _MINUS_INFINITE_DAY = -2147472693, -2147472692
_DAY = 86_400_000_000
_FIRST, _LAST = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
_MINUS_INFINITY_US = -9_000_000_000_000_000_000
_MINUS_INFINITY_MS = -9_000_000_000_000_000
_GUESS_MS_BELOW = 10_000_000_000_000
_YEAR_9999_MS = (253_370_764_800_000, 253_402_300_799_999)
_INFINITY_MS = (9_223_372_036_825_200, -9_223_372_036_832_400)


def date(token: Column) -> Column:
    """A date from days since 1970 or ISO text."""
    days = token.try_cast("bigint")
    known = (
        F.when(days.between(_FIRST_DAY, _LAST_DAY), days)
        .when((days > _LAST_DAY) | (days == _INFINITE_DAY), F.lit(_LAST_DAY))
        .when(days == _MINUS_INFINITE_DAY, F.lit(_FIRST_DAY))
    )
    by_days = F.date_from_unix_date(known.cast("int"))
    return F.when(token.rlike(_WHOLE), by_days).otherwise(_date_from_text(token))


def timestamp(token: Column, unit: Unit, zoned: bool) -> Column:
    """A timestamp from ticks since 1970 or ISO text; `zoned` chooses timestamp over timestamp_ntz.

    With the unit `guess` each value tells by its size: milliseconds below 10^13 (the year 2286) and in
    the year 9999, else microseconds. Microseconds within 116 days of 1970 are therefore misread; the
    unit is certain with a schema block or with time_precision_mode microseconds, nanoseconds or connect.
    """
    by_ticks = _from_micros(_within_years(_micros(token.try_cast("bigint"), unit)), zoned)
    by_text = _timestamp_from_text(token, zoned)
    return F.when(token.rlike(_WHOLE), by_ticks).otherwise(by_text)


def time_text(token: Column, unit: Unit) -> Column:
    """HH:MM:SS and up to six digits of fraction, as PostgreSQL prints it, 24:00:00 included."""
    micros = _micros(token.try_cast("bigint"), unit)
    seconds = F.call_function("div", micros, F.lit(1_000_000))
    fraction = F.rtrim(_padded(micros % 1_000_000, 6), F.lit("0"))
    point = F.when(fraction == "", F.lit("")).otherwise(F.concat(F.lit("."), fraction))
    clock = F.concat_ws(
        ":",
        _padded(F.call_function("div", seconds, F.lit(3600)), 2),
        _padded(F.call_function("div", seconds, F.lit(60)) % 60, 2),
        _padded(seconds % 60, 2),
    )
    ticks = F.when(micros.between(0, _DAY), F.concat(clock, point))
    return F.when(token.rlike(_WHOLE), ticks).otherwise(F.rtrim(token, F.lit("Z")))


def _padded(number: Column, width: int) -> Column:
    return F.lpad(number.cast("string"), width, "0")


def _micros(ticks: Column, unit: Unit) -> Column:
    from_ms = F.coalesce(F.try_multiply(ticks, F.lit(1000)), _beyond(ticks))
    if unit == "ms":
        return from_ms
    if unit == "ns":
        return F.call_function("div", ticks - F.pmod(ticks, F.lit(1000)), F.lit(1000))
    if unit == "us":
        return ticks
    small = ticks.between(-_GUESS_MS_BELOW, _GUESS_MS_BELOW)
    marked = ticks.between(*_YEAR_9999_MS) | ticks.isin(*_INFINITY_MS)
    return F.when(small | marked, from_ms).otherwise(ticks)


def _beyond(ticks: Column) -> Column:
    low = F.when(ticks < _MINUS_INFINITY_MS, F.lit(_MINUS_INFINITY_US - 1))
    return F.when(ticks > 0, F.lit(_LAST + 1)).otherwise(low)


def _within_years(micros: Column) -> Column:
    return (
        F.when(micros > _LAST, F.lit(_LAST))
        .when(micros >= _FIRST, micros)
        .when(micros < _MINUS_INFINITY_US, F.lit(_FIRST))
    )


def _from_micros(micros: Column, zoned: bool) -> Column:
    if zoned:
        return F.timestamp_micros(micros)
    return F.timestamp_add("MICROSECOND", micros, F.lit("1970-01-01").cast("timestamp_ntz"))


def _timestamp_from_text(text: Column, zoned: bool) -> Column:
    parsed = text.try_cast("timestamp" if zoned else "timestamp_ntz")
    return (
        F.when(text.rlike(_AFTER_9999), _from_micros(F.lit(_LAST), zoned))
        .when(text.rlike(_BEFORE_1), _from_micros(F.lit(_FIRST), zoned))
        .when(text.rlike(_DATE) & ~text.startswith("-"), parsed)
    )


def _date_from_text(text: Column) -> Column:
    return (
        F.when(text.rlike(_AFTER_9999), F.date_from_unix_date(F.lit(_LAST_DAY)))
        .when(text.rlike(_BEFORE_1), F.date_from_unix_date(F.lit(_FIRST_DAY)))
        .when(text.rlike(_DATE), F.rtrim(text, F.lit("Z")).try_cast("date"))
    )
