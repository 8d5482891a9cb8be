"""Texts of dates and timestamps as numbers: days and microseconds since 1970.

A date is `[+-]YYYY-[M]M-[D]D` with a year of 4 to 7 digits; a time of day behind ` ` or `T` is cut
off. A timestamp is a date with a year of 4 to 6 digits, then maybe ` ` or `T` and a time of day:
`[h]h`, `[h]h:[m]m` or `[h]h:[m]m:[s]s`, maybe with a fraction, then maybe a zone. Digits of a
second beyond the sixth are cut off. A zone is `Z`, an offset such as `+01:00`, `+0100` or `+1`, one
behind `UTC`, `GMT` or `UT`, or a region such as `Europe/Paris`; without one the time is in UTC.
White space around all of it does not count.
"""

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from silver.decode.types import BLANKS, Misfit

_DAY = re.compile(r"([+-]?[0-9]{4,7})-([0-9]{1,2})-([0-9]{1,2})(?:[ T](.*))?", re.DOTALL)
_TIME = re.compile(
    r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?([^0-9:.].*)?", re.DOTALL
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?)?|([0-9]{4}(?:[0-9]{2})?))"
)
_USUAL = re.compile(  # the one form that most sources write, read at once
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}):([0-5][0-9]):([0-5][0-9])"
    r"(?:\.([0-9]{1,6}))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)
_DAY_OF_1970 = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS = 146_097
_MICROS_OF_A_DAY = 86_400_000_000
_LARGEST_OFFSET = 18 * 3_600
_LONGEST_YEAR_OF_A_TIMESTAMP = 6


def timestamp_of(text: str, zoned: bool = True) -> int:
    """A timestamp's text as microseconds since 1970; without `zoned` its zone does not count.

    Raises:
        Misfit: the text is no timestamp.
    """
    usual = _USUAL.fullmatch(text)
    if usual is not None and usual[2] < "24":
        day, hour, minute, second, fraction, zone = usual.groups(default="")
        micros = ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1_000_000
        local = date_of(day) * _MICROS_OF_A_DAY + micros + int(fraction.ljust(6, "0"))
        ahead = _offset(zone, local) if zone else 0
        return local - ahead if zoned else local
    days, time = _day_and_time(text)
    if len(text.strip(BLANKS).partition("-")[0]) > _LONGEST_YEAR_OF_A_TIMESTAMP + 1:
        raise Misfit(text)
    micros, zone = (0, "") if time is None else _time_of_day(time)
    local = days * _MICROS_OF_A_DAY + micros
    ahead = _offset(zone, local) if zone else 0
    moment = local - ahead if zoned else local
    if not -(1 << 63) <= moment < 1 << 63:
        raise Misfit(text)
    return moment


@lru_cache(maxsize=8_192)
def date_of(text: str) -> int:
    """A date's text as days since 1970.

    Raises:
        Misfit: the text is no date.
    """
    days, time = _day_and_time(text)
    if time is not None:
        _time_of_day(time)
    return days


def _day_and_time(text: str) -> tuple[int, str | None]:
    """Days since 1970, and the text behind the day where there is some."""
    found = _DAY.fullmatch(text.strip(BLANKS))
    if found is None:
        raise Misfit(text)
    return _days(found[1], found[2], found[3]), found[4]


def _days(year: str, month: str, day: str) -> int:
    cycles, rest = divmod(int(year), 400)  # Python's calendar ends with the year 9999
    try:
        found = date(2000 + rest, int(month), int(day)).toordinal() - _DAY_OF_1970
    except ValueError:
        raise Misfit(f"{year}-{month}-{day}") from None
    days = found + (cycles - 5) * _DAYS_OF_400_YEARS
    if not -(1 << 31) <= days < 1 << 31:
        raise Misfit(f"{year}-{month}-{day}")
    return days


def _time_of_day(text: str) -> tuple[int, str]:
    """Microseconds since midnight, and the zone as written."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise Misfit(text)
    hour, minute, second, fraction, zone = found.groups(default="")
    seconds = (int(hour) * 60 + int(minute or 0)) * 60 + int(second or 0)
    if int(hour) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        raise Misfit(text)
    return seconds * 1_000_000 + int(fraction[:6].ljust(6, "0")), zone.strip(BLANKS)


def _offset(zone: str, local: int) -> int:
    """Microseconds that a local time, in microseconds since 1970, is ahead of UTC."""
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return fixed * 1_000_000
    days, micros = divmod(local, _MICROS_OF_A_DAY)
    try:
        day = datetime.fromordinal(days + _DAY_OF_1970)
    except (ValueError, OverflowError):
        raise Misfit(zone) from None
    ahead = (day + timedelta(microseconds=micros)).replace(tzinfo=_region(zone)).utcoffset()
    return 0 if ahead is None else ahead // timedelta(microseconds=1)


@lru_cache(maxsize=1_024)
def _fixed_offset(zone: str) -> int | None:
    """Seconds ahead of UTC; None for a region, whose offset is not always the same."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    sign, *parts, digits = found.groups(default="")
    if digits:
        parts = [digits[:2], digits[2:4], digits[4:]]
    hour, minute, second = (int(part or 0) for part in parts)
    seconds = (hour * 60 + minute) * 60 + second
    if minute > 59 or second > 59 or seconds > _LARGEST_OFFSET:
        raise Misfit(zone)
    return -seconds if sign == "-" else seconds


@lru_cache(maxsize=1_024)
def _region(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ValueError, KeyError, OSError):
        raise Misfit(zone) from None
