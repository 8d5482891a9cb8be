"""Dates, times and timestamps from Debezium's ticks and texts.

Spark and Python share the years 1 to 9999. What lies after them is held at their last moment (that
is PostgreSQL's `infinity` in all its encodings), `-infinity` at their first; any other earlier
moment does not fit. Timestamps are microseconds and dates days since 1970.
"""

import re
from datetime import datetime

from silver.decode.debezium.values.encodings import Unit
from silver.decode.types import Misfit
from silver.decode.values.json_values import text_of
from silver.decode.values.time_texts import date_of, timestamp_of

_TICKS = re.compile(r"-?[0-9]{1,19}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AFTER_9999 = re.compile(r"infinity|\+?[0-9]{5,}-")
_BEFORE_ALL = re.compile(r"-infinity|-[0-9]{6,}-")
_EPOCH = datetime.fromisoformat("1970-01-01")
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_INFINITE_DAY, _MINUS_INFINITE_DAY = -2147472693, -2147472692
_WRITTEN_DATES = range(10_000_101, 99_991_231 + 1)  # 20251009 is no number of days
_MOST_DAYS = 2**31 - 1
_MOST_TICKS = 2**63
_DAY = 86_400_000_000
_LONGEST_TIME = 838 * 3600 + 59 * 60 + 59
_FIRST, _LAST = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
_MINUS_INFINITY_US = -9_000_000_000_000_000_000
_GUESS_MS_BELOW = 10_000_000_000_000
_YEAR_9999_MS = range(253370764800000, 253402300799999 + 1)
_INFINITY_MS = (9223372036825200, -9223372036832400)
_INFINITY_US = tuple(1000 * ticks for ticks in _INFINITY_MS)
_LENGTHS = (19, 23, 26)


def date_value(value: object) -> int:
    """A date from days since 1970, which have 32 bits, or ISO text."""
    if type(value) is int:
        return _date_of_days(value)
    text = text_of(value)
    if _DATE.match(text):
        return _within(date_of(text.rstrip("Z")), _FIRST_DAY, _LAST_DAY)
    if _TICKS.fullmatch(text):
        return _date_of_days(int(text))
    return _edge(text, _FIRST_DAY, _LAST_DAY)


def timestamp_value(value: object, unit: Unit, zoned: bool) -> int:
    """A timestamp from ticks since 1970 or ISO text; without `zoned`, a zone is not looked at.

    With the unit `guess` each value tells by its size: milliseconds below 10^13 (the year 2286) and
    in the year 9999, else microseconds, or nanoseconds where that would be after 9999 or before the
    year 1. Microseconds within 116 days of 1970 and nanoseconds within 8 years are therefore
    misread; the unit is certain with a schema block, or with time_precision_mode microseconds,
    nanoseconds or connect.
    """
    if type(value) is int:
        return _micros_within(value, unit)
    text = text_of(value)
    if text[4:5] == "-" and text[7:8] == "-":
        usual = _usual(text)
        if usual is not None:
            return usual
        if _DATE.match(text):
            return _within(timestamp_of(text, zoned), _FIRST, _LAST)
    if _TICKS.fullmatch(text):
        return _micros_within(int(text), unit)
    return _edge(text, _FIRST, _LAST)


def date_of_timestamp(micros: int) -> int:
    """The day of a timestamp."""
    return micros // _DAY


def timestamp_of_date(days: int) -> int:
    """The first moment of a day."""
    return days * _DAY


def time_text(value: object, unit: Unit) -> str:
    """HH:MM:SS and the digits of its fraction as PostgreSQL prints it, 24:00:00 included.

    MySQL's TIME is a duration of up to 838:59:59, which can be negative.
    """
    text = text_of(value)
    if not _TICKS.fullmatch(text):
        return text.rstrip("Z")
    nanos = int(text) if unit == "ns" else 1000 * _micros(int(text), unit)
    seconds, fraction = divmod(abs(nanos), 1_000_000_000)
    if seconds > _LONGEST_TIME:
        raise Misfit(value)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    sign = "-" if nanos < 0 else ""
    return sign + clock + (f".{fraction:09}".rstrip("0") if fraction else "")


def _usual(text: str) -> int | None:
    """The moment of an ISO text in UTC with 0, 3 or 6 digits of fraction; None for any other."""
    plain = text[:-1] if text[-1] == "Z" else text
    if len(plain) not in _LENGTHS or plain[10] != "T":
        return None
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return None
    past = moment - _EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def _date_of_days(days: int) -> int:
    if _FIRST_DAY <= days <= _LAST_DAY:
        return days
    if days in _WRITTEN_DATES:
        raise Misfit(days)
    if _LAST_DAY < days <= _MOST_DAYS or days == _INFINITE_DAY:
        return _LAST_DAY
    if days == _MINUS_INFINITE_DAY:
        return _FIRST_DAY
    raise Misfit(days)


def _micros_within(ticks: int, unit: Unit) -> int:
    if not -_MOST_TICKS <= ticks < _MOST_TICKS:
        raise Misfit(ticks)
    micros = _micros(ticks, unit)
    if micros > _LAST:
        return _LAST
    if micros >= _FIRST:
        return micros
    if micros < _MINUS_INFINITY_US:
        return _FIRST
    raise Misfit(ticks)


def _micros(ticks: int, unit: Unit) -> int:
    if unit == "us":
        return ticks
    if unit == "ns":
        return ticks // 1000
    if unit == "ms":
        return ticks * 1000
    small = -_GUESS_MS_BELOW <= ticks <= _GUESS_MS_BELOW
    if small or ticks in _YEAR_9999_MS or ticks in _INFINITY_MS:
        return ticks * 1000
    return ticks if _FIRST <= ticks <= _LAST or ticks in _INFINITY_US else ticks // 1000


def _within(value: int, first: int, last: int) -> int:
    if not first <= value <= last:
        raise Misfit(value)
    return value


def _edge(text: str, first: int, last: int) -> int:
    """The first or last moment for a text that names one beyond it."""
    if _AFTER_9999.match(text):
        return last
    if _BEFORE_ALL.match(text):
        return first
    raise Misfit(text)
