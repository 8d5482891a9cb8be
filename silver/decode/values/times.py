"""Parses dates, times of day and timestamps: texts, and Debezium's ticks (counts of some unit).

Results are microseconds since 1970 for timestamps, and days since 1970 for dates.

A date's text is `[+-]YYYY-[M]M-[D]D`; behind it only midnight in UTC, as below, is taken. A
timestamp's text is a date, then maybe ` ` or `T` and a time of day: `[h]h`, `[h]h:[m]m` or
`[h]h:[m]m:[s]s`, maybe with a fraction, then maybe a zone. Digits of a second beyond the sixth are
cut off. A zone is `Z`, an offset such as `+01:00`, `+0100` or `+1`, one behind `UTC`, `GMT` or
`UT`, or a region such as `Europe/Paris`; without one the time is in UTC. White space around all of
it does not count.

Values lie in the years 1 to 9999, which Spark and Python share. What lies outside is `Beyond`, as
PostgreSQL's `infinity` and `-infinity` are in all their encodings, MySQL's `0000-00-00`, and the
ends of 64 bits in nanoseconds, which stand for all that 64 bits cannot hold.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import cast
from zoneinfo import ZoneInfo

from silver.decode.types import BLANKS, Misfit
from silver.decode.values.encodings import Unit
from silver.decode.values.json_values import text_of

_DAY = re.compile(r"([+-]?[0-9]{4,7})-([0-9]{1,2})-([0-9]{1,2})(?:[ T](.*))?", re.DOTALL)
_TIME = re.compile(
    r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?([^0-9:.].*)?", re.DOTALL
)
_MIDNIGHT = re.compile(r"0{1,2}(?::0{1,2}(?::0{1,2}(?:\.0*)?)?)?([^0-9:.].*)?", re.DOTALL)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?)?|([0-9]{4}(?:[0-9]{2})?))"
)
_TICKS = re.compile(r"-?[0-9]{1,19}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BEYOND = re.compile(
    r"(-)?infinity|\+?[0-9]{5,}-.*|(-)[0-9]{4,}-.*|([0-9]{4,}-.* BC)|(0000-00-00)(?:[ T].*)?",
    re.IGNORECASE | re.DOTALL,
)
"""A text outside of the years 1 to 9999; some group matches where it lies before them."""
_EPOCH = datetime.fromisoformat("1970-01-01")
_DAY_OF_1970 = _EPOCH.toordinal()
_DAYS_OF_400_YEARS = 146_097
DAY_MICROS = 86_400_000_000
_MICROSECOND = timedelta(microseconds=1)
_LARGEST_OFFSET = 18 * 3_600
_ISO_LENGTHS = (19, 23, 26)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
DAYS = (_FIRST_DAY, _LAST_DAY)
"""The first and the last day of the years 1 to 9999."""
MICROS = (_FIRST_DAY * DAY_MICROS, (_LAST_DAY + 1) * DAY_MICROS - 1)
"""The first and the last microsecond of these years."""
_WRITTEN_DATES = range(10_000_101, 99_991_231 + 1)  # 20251009 is YYYYMMDD, no number of days
_MOST_DAYS = 2**31 - 1
_MOST_TICKS = 2**63
_ENDS_OF_NANOS = (-_MOST_TICKS, _MOST_TICKS - 1)
_SECOND = 10**12
_PICOS_OF = {
    **{"picoseconds": 1, "nanos": 1_000, "second": _SECOND, "seconds": _SECOND},
    **{name: 60 * _SECOND for name in ("minute", "minutes")},
    **{name: 3_600 * _SECOND for name in ("hour", "hours")},
}
_LONG_PARTS = ("years", "months", "days")
_PARTS = {*_PICOS_OF, *_LONG_PARTS, "year", "month", "day", "offsetSeconds"}
_ENDS_OF_TIME = {"POSITIVE_INFINITY": "infinity", "NEGATIVE_INFINITY": "-infinity"}
_LONGEST_TIME = 838 * 3600 + 59 * 60 + 59
MILLIS_BELOW = 10_000_000_000_000
"""Ticks of an unknown unit below it, in the year 2286, are milliseconds."""
_YEAR_9999_MS = range(253_370_764_800_000, 253_402_300_799_999 + 1)
# PostgreSQL's `infinity` and `-infinity` as Debezium's ticks, and as days (True: infinity).
_INFINITY_MS = (9_223_372_036_825_200, -9_223_372_036_832_400)
_INFINITY_US = tuple(1000 * ticks for ticks in _INFINITY_MS)
_MICROS_OF = {"ms": 1_000, "us": 1}
_INFINITE_DAYS = {-2_147_472_693: True, -2_147_472_692: False}
ENDS = ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999")
"""The first and the last moment of the years 1 to 9999 as texts."""


class Beyond(Misfit):
    """A date or timestamp that lies outside of the years 1 to 9999.

    Attributes:
        is_after: whether it lies after them.
    """

    def __init__(self, value: object, is_after: bool) -> None:
        super().__init__(value)
        self.is_after = is_after


def date_text(days: int) -> str:
    """A date as Spark prints it."""
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def timestamp_text(micros: int) -> str:
    """A timestamp without a zone as Spark prints it: no zeros at the end of the fraction."""
    text = (_EPOCH + timedelta(microseconds=micros)).isoformat(" ", "microseconds")
    return text.rstrip("0").removesuffix(".")


def timestamp_of(text: str, zoned: bool = True) -> int:
    """A timestamp's text as microseconds since 1970; without `zoned` its zone is ignored.

    Raises:
        Misfit: the text is no timestamp, or `Beyond`.
    """
    parsed = _parse_iso_utc(text)
    if parsed is not None:
        return parsed
    days, time = _parse_date(text)
    micros, zone = (0, "") if time is None else _parse_time(time)
    local = days * DAY_MICROS + micros
    offset = _find_offset(zone, local) if zone else 0
    return _check_years(local - offset if zoned else local, MICROS)


@lru_cache(maxsize=8_192)
def date_of(text: str) -> int:
    """A date's text as days since 1970.

    Raises:
        Misfit: the text is no date, has a time of day other than midnight in UTC, or `Beyond`.
    """
    days, time = _parse_date(text)
    if time is not None:
        _parse_time(time)
    _check_years(days, DAYS)
    if time is not None and not _is_midnight(time):
        raise Misfit(text)
    return days


def date_value(value: object) -> int:
    """A date from a 32-bit number of days since 1970, or from ISO text."""
    if type(value) is int:
        return _check_days(value)
    text = _text_of(value)
    if _DATE.match(text):
        return date_of(text.rstrip("Z"))
    if _TICKS.fullmatch(text):
        return _check_days(int(text))
    raise _build_misfit(text)


def timestamp_value(value: object, unit: Unit, zoned: bool) -> int:
    """A timestamp from ticks since 1970 or ISO text; without `zoned`, its zone is ignored.

    With the unit `guess` the size of a value decides: milliseconds below 10^13 (the year 2286) and
    in the year 9999, else microseconds, or nanoseconds where that would be after 9999 or before the
    year 1. Microseconds within 116 days of 1970 and nanoseconds within 8 years are therefore
    misread; the unit is certain with a schema block, or with time_precision_mode microseconds,
    nanoseconds or connect.
    """
    if type(value) is int:
        return _convert_ticks(value, unit)
    text = _text_of(value)
    if text[4:5] == "-" and _DATE.match(text):
        return timestamp_of(text, zoned)
    if _TICKS.fullmatch(text):
        return _convert_ticks(int(text), unit)
    raise _build_misfit(text)


def time_text(value: object, unit: Unit) -> str:
    """HH:MM:SS and its fraction as PostgreSQL prints them, 24:00:00 included; text stays.

    MySQL's TIME is a duration of up to 838:59:59, which can be negative.
    """
    text = _text_of(value)
    if not _TICKS.fullmatch(text):
        return text.rstrip("Z")
    nanos = int(text) if unit == "ns" else 1000 * _to_micros(int(text), unit)
    if abs(nanos) >= (_LONGEST_TIME + 1) * _SECOND // 1_000:
        raise Misfit(value)
    return _clock_text(nanos * 1_000)


def _text_of(value: object) -> str:
    return _join_parts(value) if isinstance(value, dict) else text_of(value)


def _join_parts(value: Mapping[str, object]) -> str:
    """The text of a date, time or duration in parts: Debezium's `time.precision.mode=structured`.

    A duration is spelled as PostgreSQL prints it: `2 days 04:05:06`.
    """
    end = _ENDS_OF_TIME.get(str(value.get("specialValue")))
    parts = {name: part for name, part in value.items() if name in _PARTS and part is not None}
    if end is not None:
        return end
    if not parts or any(type(part) is not int for part in parts.values()):
        raise _build_misfit(text_of(value))
    given = cast("Mapping[str, int]", parts)
    days = [f"{given[name]} {name}" for name in _LONG_PARTS if given.get(name)]
    if (year := given.get("year")) is not None:
        digits = 5 if year < 0 else 4
        days = [f"{str(year).zfill(digits)}-{given.get('month', 0):02}-{given.get('day', 0):02}"]
    picos = sum(count * given.get(name, 0) for name, count in _PICOS_OF.items())
    clock = [] if _PICOS_OF.keys().isdisjoint(given) else [_clock_text(picos)]
    return " ".join([*days, *clock]) + _zone_text(given.get("offsetSeconds"))


def _zone_text(offset: int | None) -> str:
    if offset is None:
        return ""
    return ("-" if offset < 0 else "+") + _clock_text(abs(offset) * _SECOND).removesuffix(":00")


def _clock_text(picos: int) -> str:
    """Hours, minutes and seconds, maybe with a sign and a fraction."""
    seconds, fraction = divmod(abs(picos), _SECOND)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    sign = "-" if picos < 0 else ""
    return sign + clock + (f".{fraction:012}".rstrip("0") if fraction else "")


def _parse_iso_utc(text: str) -> int | None:
    """Microseconds of an ISO text in UTC with 0, 3 or 6 digits of fraction; None for any other."""
    plain = text[:-1] if text[-1:] == "Z" else text
    if len(plain) not in _ISO_LENGTHS or plain[7] != "-" or plain[13] != ":":
        return None
    if plain[10] not in "T " or plain[19:20] == "," or plain[11:13] == "24":
        return None
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return None
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _parse_date(text: str) -> tuple[int, str | None]:
    """Days since 1970, and the text behind the date where there is some."""
    match = _DAY.fullmatch(text.strip(BLANKS))
    if match is None or (match[4] or "").upper().endswith("BC"):
        raise _build_misfit(text.strip(BLANKS))
    # Python's dates end with the year 9999: a year from 2000 to 2399, moved by cycles of 400.
    cycles, rest = divmod(int(match[1]), 400)
    try:
        days = date(2000 + rest, int(match[2]), int(match[3])).toordinal() - _DAY_OF_1970
    except ValueError:
        raise _build_misfit(text.strip(BLANKS)) from None
    return days + (cycles - 5) * _DAYS_OF_400_YEARS, match[4]


def _parse_time(text: str) -> tuple[int, str]:
    """Microseconds since midnight, and the zone as written."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Misfit(text)
    hour, minute, second, fraction, zone = match.groups(default="")
    seconds = (int(hour) * 60 + int(minute or 0)) * 60 + int(second or 0)
    if int(hour) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        raise Misfit(text)
    return seconds * 1_000_000 + int(fraction[:6].ljust(6, "0")), zone.strip(BLANKS)


def _is_midnight(time: str) -> bool:
    """Whether a time of day is midnight, to the last digit, and in UTC."""
    match = _MIDNIGHT.fullmatch(time)
    zone = "" if match is None else (match[1] or "").strip(BLANKS)
    return match is not None and (not zone or _parse_fixed_offset(zone) == 0)


def _find_offset(zone: str, local: int) -> int:
    """The offset from UTC in microseconds, at a local time in microseconds since 1970."""
    fixed = _parse_fixed_offset(zone)
    if fixed is not None:
        return fixed * 1_000_000
    try:
        moment = _EPOCH + timedelta(microseconds=local)
        offset = moment.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    except (ValueError, KeyError, OSError, OverflowError):
        raise Misfit(zone) from None
    return 0 if offset is None else offset // _MICROSECOND


@lru_cache(maxsize=1_024)
def _parse_fixed_offset(zone: str) -> int | None:
    """The offset from UTC in seconds; None for a region, whose offset is not always the same."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    sign, *parts, digits = match.groups(default="")
    if digits:
        parts = [digits[:2], digits[2:4], digits[4:]]
    hour, minute, second = (int(part or 0) for part in parts)
    seconds = (hour * 60 + minute) * 60 + second
    if minute > 59 or second > 59 or seconds > _LARGEST_OFFSET:
        raise Misfit(zone)
    return -seconds if sign == "-" else seconds


def lies_beyond(value: object, is_date: bool) -> bool:
    """Whether a misfit, in milliseconds, may lie outside of the years 1 to 9999."""
    try:
        date_value(value) if is_date else timestamp_value(value, "ms", zoned=False)
    except Misfit as error:
        return isinstance(error, Beyond)
    return False


def _check_days(days: int) -> int:
    if days in _INFINITE_DAYS:
        raise Beyond(days, _INFINITE_DAYS[days])
    if days in _WRITTEN_DATES:
        raise Misfit(days)
    return _check_years(_check_range(days, -_MOST_DAYS - 1, _MOST_DAYS), DAYS)


def _convert_ticks(ticks: int, unit: Unit) -> int:
    if unit == "ns" and ticks in _ENDS_OF_NANOS:
        raise Beyond(ticks, ticks > 0)
    micros = _to_micros(_check_range(ticks, -_MOST_TICKS, _MOST_TICKS - 1), unit)
    return _check_years(micros, MICROS)


def _to_micros(ticks: int, unit: Unit) -> int:
    if unit == "guess":
        unit = _guess_unit(ticks)
    return ticks // 1000 if unit == "ns" else ticks * _MICROS_OF[unit]


def _guess_unit(ticks: int) -> Unit:
    small = -MILLIS_BELOW <= ticks <= MILLIS_BELOW
    if small or ticks in _YEAR_9999_MS or ticks in _INFINITY_MS:
        return "ms"
    return "us" if MICROS[0] <= ticks <= MICROS[1] or ticks in _INFINITY_US else "ns"


def _check_range(value: int, first: int, last: int) -> int:
    if not first <= value <= last:
        raise Misfit(value)
    return value


def _check_years(value: int, ends: tuple[int, int]) -> int:
    if not ends[0] <= value <= ends[1]:
        raise Beyond(value, value > ends[1])
    return value


def _build_misfit(text: str) -> Misfit:
    """The error for a text that is no date or timestamp of the years 1 to 9999."""
    match = _BEYOND.fullmatch(text)
    return Misfit(text) if match is None else Beyond(text, not any(match.groups()))
