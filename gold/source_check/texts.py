"""One text per value that is the same for equal values of a source database and of gold.

The texts feed digests. Equal values may have different texts, different values never the same one:
rows whose texts differ are compared again by `is_equal`, value by value.

| source type | text |
|---|---|
| integers, numeric, money | decimal digits without trailing zeros |
| real, double | 15 significant digits; compared again exactly (real: as a real) |
| boolean | true, false |
| char(n) | without trailing blanks |
| bytea, blob | hex |
| bit(n) | binary digits without leading zeros |
| date, timestamp | ISO, six digits of a second; with time zone in UTC; MySQL's zero date is null |
| time | µs since midnight; with time zone in UTC |
| interval | µs, a year as 365.25 days and a month as a twelfth of it, as Debezium has it |
| arrays | JSON without blanks; json is compared again as JSON |
| anything else, such as ranges | as the database writes it |
"""

import base64
import json
import math
import re
import struct
from collections.abc import Callable
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Literal

Kind = Literal[
    "number", "float", "real", "bool", "padded", "bytes", "bits", "date", "timestamp",
    "timestamptz", "time", "timetz", "interval", "json", "array", "text",
]  # fmt: skip
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("timestamp with time zone", "timestamptz"), ("timestamptz", "timestamptz"),
    ("timestamp", "timestamp"), ("datetime", "timestamp"), ("date", "date"),
    ("time with time zone", "timetz"), ("timetz", "timetz"), ("time", "time"),
    ("interval", "interval"), ("smallint", "number"), ("bigint", "number"), ("int", "number"),
    ("numeric", "number"), ("decimal", "number"), ("money", "number"), ("double", "float"),
    ("float", "float"),
    ("real", "real"), ("bool", "bool"), ("char(", "padded"), ("character(", "padded"),
    ("bytea", "bytes"), ("blob", "bytes"), ("varbinary", "bytes"), ("binary", "bytes"),
    ("tinyblob", "bytes"), ("mediumblob", "bytes"), ("longblob", "bytes"), ("json", "json"),
    ("tinyint", "number"), ("mediumint", "number"), ("bit varying", "text"), ("bit(1)", "bool"),
    ("bit(", "bits"), ("bit", "bool"),
)  # fmt: skip
_ZERO_DATE = re.compile(r"[0-9]{4}-(00-[0-9]{2}|[0-9]{2}-00)")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def kind_of(type: str) -> Kind:
    """The kind of a source type, by its SQL name in the source."""
    name = type.lower()
    if name.endswith("[]"):
        return "array"
    return next((kind for prefix, kind in _KINDS if _is_named(name, prefix)), "text")


def _is_named(name: str, prefix: str) -> bool:
    """Whether a type's name is a prefix and its rest, such as `int` and `eger`; not `int4range`."""
    rest = name.removeprefix(prefix)
    return name.startswith(prefix) and re.match(r"(eger|ean|b|\d+|_ntz)?(?!\w)", rest) is not None


def is_comparable(type: str) -> bool:
    """Whether values of a source type can be compared: not arrays of times or bytes."""
    return not type.endswith("[]") or kind_of(type[:-2]) in ("number", "text", "bool", "padded")


def has_short_seconds(type: str) -> bool:
    """Whether Debezium counts times of this type in milliseconds: three digits or less."""
    digits = type.partition("(")[2].partition(")")[0]
    return digits.isdigit() and int(digits) <= 3


def text_of(value: object, kind: Kind) -> str | None:
    """The text of a value as a driver gives it; null for null."""
    if isinstance(value, str) and kind in ("date", "timestamp") and _ZERO_DATE.match(value):
        return None
    return None if value is None else _WRITERS.get(kind, str)(value)


def is_equal(ours: str | None, theirs: str | None, kind: Kind) -> bool:
    """Whether two exact texts of one kind say the same value."""
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    try:
        return bool(_VALUES[kind](ours) == _VALUES[kind](theirs)) if kind in _VALUES else False
    except (ValueError, InvalidOperation, OverflowError):
        return False


def _write_number(value: object) -> str:
    text = f"{Decimal(str(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _write_float(value: object) -> str:
    number = float(str(value))
    if math.isfinite(number):
        return f"{number:.14e}"
    return "NaN" if math.isnan(number) else f"{'-' * (number < 0)}Infinity"


def _as_real(value: object) -> float:
    """The value that a real holds; a 64-bit reading of its text differs from it."""
    number: float = struct.unpack("f", struct.pack("f", float(str(value))))[0]
    return number


def _write_bytes(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _write_timestamp(value: object) -> str:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds")


def _write_time(value: object) -> str:
    if isinstance(value, timedelta):
        return str(value // timedelta(microseconds=1))
    moment = value if isinstance(value, time) else time.fromisoformat(str(value))
    return str(
        (datetime.combine(_EPOCH, moment, timezone.utc) - _EPOCH) // timedelta(microseconds=1)
    )


def _write_zoned_time(value: object) -> str:
    moment = value if isinstance(value, time) else time.fromisoformat(str(value))
    local = datetime.combine(_EPOCH, moment.replace(tzinfo=None), timezone.utc) - _EPOCH
    utc = local - (moment.utcoffset() or timedelta())
    return str(utc % timedelta(days=1) // timedelta(microseconds=1))


def _write_interval(value: object) -> str:
    return str(value // timedelta(microseconds=1)) if isinstance(value, timedelta) else str(value)


def _write_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_array(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


_WRITERS: dict[Kind, Callable[[object], str]] = {
    "number": _write_number, "float": _write_float,
    "real": lambda value: _write_float(_as_real(value)),
    "bool": lambda value: "true" if value in (True, 1, "1", "true", "t") else "false",
    "bytes": _write_bytes, "date": lambda value: str(value)[:10], "timestamp": _write_timestamp,
    "timestamptz": _write_timestamp, "time": _write_time, "timetz": _write_zoned_time,
    "interval": _write_interval, "json": _write_json, "array": _write_array,
    "padded": lambda value: str(value).rstrip(" "),
    "bits": lambda value: str(value).lstrip("0"),
}  # fmt: skip


def _parse_json(text: str) -> object:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _parse_bytes(text: str) -> bytes:
    """The bytes that a text spells in hex, or else in base64."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return base64.b64decode(text, validate=True)


def _with_equal_nan(read: Callable[[str], float]) -> Callable[[str], object]:
    """Reads a float so that NaN equals NaN."""
    return lambda text: "nan" if math.isnan(read(text)) else read(text)


_VALUES: dict[Kind, Callable[[str], object]] = {
    "number": Decimal, "float": _with_equal_nan(float), "real": _with_equal_nan(_as_real),
    "json": _parse_json, "array": _parse_json, "bytes": _parse_bytes,
    "padded": lambda text: text.rstrip(" "),
}  # fmt: skip
