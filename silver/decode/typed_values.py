"""JSON values as values of a column's type: exact, or a misfit.

Nothing here rounds, wraps around or guesses. A value that the type cannot hold as it is raises
`Misfit`, which decoders report as `bad_value`. A scalar counts by its text, so that a CSV field
`"12"` and a JSON number `12` are one and the same:

| type | accepted |
|---|---|
| string, char, varchar | any text; a number as it is written; an object or array as JSON text |
| tinyint to bigint | a whole number in range, also written as `1.0` or `1e3` |
| decimal(p,s) | a number that fits without rounding, also with an exponent |
| float, double | a number in range, `NaN`, `Infinity`, `inf` with or without a sign |
| boolean | `true t yes y 1`, `false f no n 0` in either case |
| date | `[+-]YYYY-[M]M-[D]D`, years of 4 to 7 digits; a time behind ` ` or `T` is cut off |
| timestamp | a date with a year of 4 to 6 digits, then maybe ` ` or `T` and a time of day |
| timestamp_ntz | as a timestamp; its zone does not count |
| binary | base64, white space and missing padding allowed |
| array, map, struct | a JSON array or object, or text that is one; every value inside must fit |
| variant | a JSON object or array, a number or boolean, or text that is JSON; becomes JSON text, |
| | and so does an array, map or struct that holds variants |

A time of day is `[h]h`, `[h]h:[m]m` or `[h]h:[m]m:[s]s`, maybe with a fraction, then maybe a zone.
A zone is `Z`, an offset such as `+01:00`, `+0100` or `+1`, one behind `UTC`, `GMT` or `UT`, or a
region such as `Europe/Paris`; without one the time is in UTC. Digits of a second beyond the sixth
are cut off. White space around numbers, booleans and times does not count.
"""

import base64
import math
import re
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import TypeVar
from zoneinfo import ZoneInfo

from pyspark.sql import types as T

from silver.decode.json_values import NotJson, NumberText, json_text, parse_json
from silver.decode.json_values import text_of as text_of

Converter = Callable[[object], object]
"""Takes a JSON value that is not null, gives what pyarrow takes for the column's Arrow type.

Timestamps are microseconds and dates days since 1970, maps lists of pairs, structs dictionaries.
"""

LONGEST_SHOWN = 80
_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_SPECIAL_NUMBER = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE)
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
_BLANKS_OF_BASE64 = str.maketrans("", "", " \t\r\n")
_ONE = Decimal(1)
_TO_WHOLE = Context(prec=40, traps=[Inexact, InvalidOperation])
_DAY_OF_1970 = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS = 146_097
_MICROS_OF_A_DAY = 86_400_000_000
_LARGEST_OFFSET = 18 * 3_600
_LONGEST_YEAR_OF_A_TIMESTAMP = 6
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))


class Misfit(ValueError):
    """A value that its column's type cannot hold as it is."""


def converter(data_type: T.DataType) -> Converter:
    """The function that turns JSON values other than null into values of the type.

    It raises `Misfit` for a value that does not fit.

    Raises:
        TypeError: no column of a Delta table is of this type.
    """
    for kind, make in _MAKERS:
        if isinstance(data_type, kind):
            made = make(data_type)
            return _checked_text(made) if _holds_variants(data_type) else made
    raise TypeError(f"found {data_type.simpleString()}, expected a type of a Delta column")


def misfit_message(name: str, value: object, data_type: T.DataType, hidden: bool = False) -> str:
    """What was found in a column and what was expected, for a person.

    The value of a sensitive column (`hidden`) is not shown.
    """
    shown = "a value that is not shown" if hidden else f"'{text_of(value)[:LONGEST_SHOWN]}'"
    return f"column {name}: found {shown}, expected {data_type.simpleString()}"


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
    if len(text.strip(_BLANKS).partition("-")[0]) > _LONGEST_YEAR_OF_A_TIMESTAMP + 1:
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


def _text(data_type: T.DataType) -> Converter:
    return lambda value: value if type(value) is str else text_of(value)


def _whole(data_type: T.DataType) -> Converter:
    limit = 1 << {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[data_type.simpleString()]

    def convert(value: object) -> int:
        number = value if type(value) is int else _whole_number(text_of(value).strip(_BLANKS))
        if not -limit <= number < limit:
            raise Misfit(value)
        return number

    return convert


def _whole_number(text: str) -> int:
    if _WHOLE.fullmatch(text):
        return int(text)
    return int(_rescaled(_number(text), _ONE, _TO_WHOLE))


def _decimal(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.DecimalType)
    unit = _ONE.scaleb(-data_type.scale)
    context = Context(prec=data_type.precision, traps=[Inexact, InvalidOperation])

    def convert(value: object) -> Decimal:
        if type(value) is int:
            return _rescaled(Decimal(value), unit, context)
        return _rescaled(_number(text_of(value).strip(_BLANKS)), unit, context)

    return convert


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise Misfit(text)
    return Decimal(text)


def _rescaled(number: Decimal, unit: Decimal, context: Context) -> Decimal:
    """The number with the digits behind the point that `unit` has, if none is lost."""
    try:
        return number.quantize(unit, context=context)
    except (Inexact, InvalidOperation):
        raise Misfit(number) from None


def _floating(data_type: T.DataType) -> Converter:
    single = isinstance(data_type, T.FloatType)

    def convert(value: object) -> float:
        if isinstance(value, NumberText):
            number = float(value)
        else:
            text = text_of(value).strip(_BLANKS)
            if _SPECIAL_NUMBER.fullmatch(text):
                return float(text)
            number = float(text) if _NUMBER.fullmatch(text) else math.inf
        if math.isinf(number):
            raise Misfit(value)
        return _single(number) if single else number

    return convert


def _single(number: float) -> float:
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise Misfit(number) from None
    return number


def _boolean(data_type: T.DataType) -> Converter:
    def convert(value: object) -> bool:
        if isinstance(value, bool):
            return value
        text = text_of(value).strip(_BLANKS).lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise Misfit(value)

    return convert


def _date(data_type: T.DataType) -> Converter:
    return lambda value: date_of(text_of(value))


def _timestamp(data_type: T.DataType) -> Converter:
    zoned = not isinstance(data_type, T.TimestampNTZType)
    return lambda value: timestamp_of(text_of(value), zoned)


def _day_and_time(text: str) -> tuple[int, str | None]:
    """Days since 1970, and the text behind the day where there is some."""
    found = _DAY.fullmatch(text.strip(_BLANKS))
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
    return seconds * 1_000_000 + int(fraction[:6].ljust(6, "0")), zone.strip(_BLANKS)


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


def _binary(data_type: T.DataType) -> Converter:
    def convert(value: object) -> bytes:
        text = text_of(value).translate(_BLANKS_OF_BASE64)
        digits = text.rstrip("=")
        if len(digits) % 4 == 0 and digits != text:
            raise Misfit(value)
        try:
            return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
        except ValueError:
            raise Misfit(value) from None

    return convert


def _array(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.ArrayType)
    element = converter(data_type.elementType)

    def convert(value: object) -> list[object]:
        return [None if one is None else element(one) for one in _opened(value, list)]

    return convert


def _map(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.MapType)
    key, item = converter(data_type.keyType), converter(data_type.valueType)

    def convert(value: object) -> list[tuple[object, object]]:
        members = _opened(value, dict).items()
        pairs = [(key(name), None if one is None else item(one)) for name, one in members]
        if len({repr(name) for name, _ in pairs}) < len(pairs):
            raise Misfit(value)
        return pairs

    return convert


def _struct(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.StructType)
    fields = [(field.name, converter(field.dataType)) for field in data_type.fields]

    def convert(value: object) -> dict[str, object]:
        members = _opened(value, dict)
        found = ((name, members.get(name), made) for name, made in fields)
        return {name: None if one is None else made(one) for name, one, made in found}

    return convert


def _variant(data_type: T.DataType) -> Converter:
    return lambda value: json_text(_parsed(value) if isinstance(value, str) else value)


def _holds_variants(data_type: T.DataType) -> bool:
    return "variant" in data_type.simpleString() and not isinstance(data_type, T.VariantType)


def _checked_text(convert: Converter) -> Converter:
    """JSON text of what converts; Arrow carries no variants, inside of another value neither."""

    def checked(value: object) -> str:
        convert(value)
        return json_text(_parsed(value) if isinstance(value, str) else value)

    return checked


Opened = TypeVar("Opened")


def _opened(value: object, expected: type[Opened]) -> Opened:
    """The array or object that a value, or the JSON text in it, is."""
    found = _parsed(value) if isinstance(value, str) else value
    if not isinstance(found, expected):
        raise Misfit(value)
    return found


def _parsed(text: str) -> object:
    try:
        return parse_json(text)
    except NotJson:
        raise Misfit(text) from None


_MAKERS: tuple[tuple[type[T.DataType], Callable[[T.DataType], Converter]], ...] = (
    (T.StringType, _text),
    (T.CharType, _text),
    (T.VarcharType, _text),
    (T.IntegralType, _whole),
    (T.DecimalType, _decimal),
    (T.FractionalType, _floating),
    (T.BooleanType, _boolean),
    (T.DateType, _date),
    (T.TimestampType, _timestamp),
    (T.TimestampNTZType, _timestamp),
    (T.BinaryType, _binary),
    (T.ArrayType, _array),
    (T.MapType, _map),
    (T.StructType, _struct),
    (T.VariantType, _variant),
)
