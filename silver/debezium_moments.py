"""Dates, times and timestamps from Debezium's ticks and texts; all in SQL text.

Spark and Python share the years 1 to 9999. What lies after them is held at their last moment (that
is PostgreSQL's `infinity` in all its encodings), `-infinity` at their first; any other earlier
moment does not fit and is null.
"""

from typing import Literal

from lakehouse.names import literal

Unit = Literal["guess", "ms", "us", "ns"]

_WHOLE = literal(r"\A-?[0-9]{1,19}\z")
_DATE = literal(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}")
_AFTER_9999 = literal(r"\A(infinity|\+?[0-9]{5,}-)")
_BEFORE_ALL = literal(r"\A(-infinity|-[0-9]{6,}-)")
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_INFINITE_DAY, _MINUS_INFINITE_DAY = -2147472693, -2147472692
_MOST_DAYS = 2**31 - 1
_DAY = 86_400_000_000
_FIRST, _LAST = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
_MINUS_INFINITY_US = -9_000_000_000_000_000_000
_GUESS_MS_BELOW = 10_000_000_000_000
_YEAR_9999_MS = "253370764800000 AND 253402300799999"
_INFINITY_MS = "9223372036825200, -9223372036832400"


def date(token: str) -> str:
    """A date from days since 1970, which have 32 bits, or ISO text."""
    days = f"try_cast({token} AS bigint)"
    known = (
        f"CASE WHEN {days} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN {days} "
        f"WHEN {days} BETWEEN {_LAST_DAY + 1} AND {_MOST_DAYS} OR {days} = {_INFINITE_DAY} "
        f"THEN {_LAST_DAY} "
        f"WHEN {days} = {_MINUS_INFINITE_DAY} THEN {_FIRST_DAY} END"
    )
    by_days = f"date_from_unix_date(cast({known} AS int))"
    parsed = f"try_cast(rtrim('Z', {token}) AS date)"
    first, last = f"date_from_unix_date({_FIRST_DAY})", f"date_from_unix_date({_LAST_DAY})"
    by_text = _by_text(token, first, last, parsed)
    return f"CASE {_by_form(token, parsed)} WHEN {token} RLIKE {_WHOLE} THEN {by_days} {by_text}"


def timestamp(token: str, unit: Unit, zoned: bool) -> str:
    """A timestamp from ticks since 1970 or ISO text; `zoned` means timestamp, else timestamp_ntz.

    With the unit `guess` each value tells by its size: milliseconds below 10^13 (the year 2286) and
    in the year 9999, else microseconds. Microseconds within 116 days of 1970 are therefore misread;
    the unit is certain with a schema block, or with time_precision_mode microseconds, nanoseconds
    or connect.
    """
    ticks = _micros(f"try_cast({token} AS bigint)", unit)
    within = (
        f"CASE WHEN {ticks} > {_LAST} THEN {_LAST} WHEN {ticks} >= {_FIRST} THEN {ticks} "
        f"WHEN {ticks} < {_MINUS_INFINITY_US} THEN {_FIRST} END"
    )
    type = "timestamp" if zoned else "timestamp_ntz"
    first, last = _moment(str(_FIRST), zoned), _moment(str(_LAST), zoned)
    parsed = f"try_cast({token} AS {type})"
    by_ticks, by_text = _moment(within, zoned), _by_text(token, first, last, parsed)
    return f"CASE {_by_form(token, parsed)} WHEN {token} RLIKE {_WHOLE} THEN {by_ticks} {by_text}"


def time_text(token: str, unit: Unit) -> str:
    """HH:MM:SS and up to six digits of fraction as PostgreSQL prints it, 24:00:00 included."""
    micros = _micros(f"try_cast({token} AS bigint)", unit)
    parts = (
        f"{micros} div 3600000000",
        f"{micros} div 60000000 % 60",
        f"{micros} div 1000000 % 60",
    )
    clock = ", ':', ".join(f"lpad(cast({part} AS string), 2, '0')" for part in parts)
    fraction = f"rtrim('0', concat('.', lpad(cast({micros} % 1000000 AS string), 6, '0')))"
    text = f"concat({clock}, CASE WHEN {micros} % 1000000 = 0 THEN '' ELSE {fraction} END)"
    within = f"CASE WHEN {micros} BETWEEN 0 AND {_DAY} THEN {text} END"
    return f"CASE WHEN {token} RLIKE {_WHOLE} THEN {within} ELSE rtrim('Z', {token}) END"


def _micros(ticks: str, unit: Unit) -> str:
    beyond = f"CASE WHEN {ticks} > 0 THEN {_LAST + 1} ELSE {_MINUS_INFINITY_US - 1} END"
    from_ms = f"coalesce(try_multiply({ticks}, 1000), {beyond})"
    if unit == "us":
        return ticks
    if unit == "ns":
        return f"(try_subtract({ticks}, pmod({ticks}, 1000)) div 1000)"
    if unit == "ms":
        return from_ms
    small = f"{ticks} BETWEEN -{_GUESS_MS_BELOW} AND {_GUESS_MS_BELOW}"
    marked = f"{ticks} BETWEEN {_YEAR_9999_MS} OR {ticks} IN ({_INFINITY_MS})"
    return f"(CASE WHEN {small} OR {marked} THEN {from_ms} ELSE {ticks} END)"


def _moment(micros: str, zoned: bool) -> str:
    if zoned:
        return f"timestamp_micros({micros})"
    return f"timestampadd(MICROSECOND, {micros}, TIMESTAMP_NTZ '1970-01-01 00:00:00')"


def _by_form(token: str, parsed: str) -> str:
    """A text of four digits and a dash is none of the other forms; most texts are told by that."""
    return f"WHEN substring({token}, 5, 1) = '-' AND {token} RLIKE {_DATE} THEN {parsed}"


def _by_text(token: str, first: str, last: str, parsed: str) -> str:
    return (
        f"WHEN {token} RLIKE {_AFTER_9999} THEN {last} "
        f"WHEN {token} RLIKE {_BEFORE_ALL} THEN {first} "
        f"WHEN {token} RLIKE {_DATE} THEN {parsed} END"
    )
