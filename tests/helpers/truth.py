"""What PostgreSQL held at the end of a capture, and how its values and ours are made comparable."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

TRUTH = Path(__file__).parents[1] / "fixtures" / "shop" / "truth"
SAME_TRUTH = {"small_with_schemas": "small", "small_debezium_defaults": "small"}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision")
MONTH, DAY = Decimal(2_629_800_000_000), Decimal(86_400_000_000)
UNITS = {"year": MONTH * 12, "mon": MONTH, "day": DAY}

Schema = Mapping[str, str]
Value = Any  # a value of any column, of either side, before or after


def truth_rows(capture: str, table: str) -> list[dict[str, Any]]:
    """The table's rows as PostgreSQL's to_jsonb gave them, but for numbers as Decimal."""
    path = TRUTH / SAME_TRUTH.get(capture, capture) / f"{table}.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line, parse_float=Decimal, parse_int=Decimal) for line in lines]


def truth_schema(capture: str, table: str) -> dict[str, str]:
    """The table's columns and their PostgreSQL types."""
    path = TRUTH / SAME_TRUTH.get(capture, capture) / "schema.json"
    tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
    return {column["name"]: column["type"] for column in tables[table]["columns"]}


def truth_key(capture: str, table: str) -> list[str]:
    """The table's primary key."""
    path = TRUTH / SAME_TRUTH.get(capture, capture) / "schema.json"
    key: list[str] = json.loads(path.read_text(encoding="utf-8"))["tables"][table]["key"]
    return key


def comparable(row: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """One row in a form in which a Spark row equals the truth, column by column.

    Takes rows of either side, and values in any form that a decoder may leave them in: with types
    or, of an undeclared column without a schema block, as Debezium wrote them. A column that the
    row lacks is null.

    Args:
        row: a Spark row as Python values, or a row of `truth_rows`.
        schema: PostgreSQL types by column, of `truth_schema`; other columns of the row are left
            out.
    """
    return {name: _value(row.get(name), type) for name, type in schema.items()}


def _value(value: Value, type: str) -> Value:
    if value is None:
        return None
    if type.endswith("[]"):
        return [_value(item, type.removesuffix("[]")) for item in _parsed(value)]
    for prefix, read in READERS.items():
        if type.startswith(prefix):
            return read(value, type)
    return value


def _number(value: Value, type: str) -> Value:
    if type == "real":
        return Decimal(f"{float(value):.6e}")
    if type == "double precision":
        return Decimal(repr(float(value))) + 0
    if isinstance(value, str) and type.startswith("numeric("):
        return _packed(value, int(type.split(",")[1].rstrip(")")))
    if isinstance(value, str) and value.startswith("{"):
        parts = json.loads(value)
        return _packed(parts["value"], parts["scale"])
    return Decimal(str(value)).normalize() + 0


def _packed(text: str, scale: int) -> Decimal:
    if re.fullmatch(r"-?\d+\.\d+", text):
        return Decimal(text).normalize() + 0
    whole = int.from_bytes(base64.b64decode(text), "big", signed=True)
    return Decimal(whole).scaleb(-scale).normalize() + 0


def _timestamp(value: Value, type: str) -> int:
    if isinstance(value, int | Decimal) or str(value).isdigit():
        return int(value) * (1000 if "(3)" in type else 1)
    moment = value if isinstance(value, datetime) else _iso(value)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (aware - EPOCH) // timedelta(microseconds=1)


def _iso(text: str) -> datetime:
    whole, point, rest = text.replace(" ", "T").replace("Z", "+00:00").partition(".")
    digits = re.match(r"\d*", rest)
    fraction = digits[0] if digits else ""
    return datetime.fromisoformat(
        f"{whole}{point}{fraction.ljust(6, '0') if point else ''}{rest[len(fraction) :]}"
    )


def _date(value: Value, _: str) -> str:
    if isinstance(value, int | Decimal):
        return (EPOCH + timedelta(days=int(value))).date().isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)[:10]


def _time(value: Value, type: str) -> int:
    if isinstance(value, int | Decimal) or str(value).isdigit():
        return int(value) * (1000 if "(3)" in type else 1)
    hours, minutes, seconds = str(value).split(":")
    return int((int(hours) * 60 + int(minutes)) * 60_000_000 + Decimal(seconds) * 1_000_000)


def _zoned_time(value: Value, _: str) -> int:
    clock, sign, offset = re.findall(r"([\d:.]+)([+-]|Z)(.*)", str(value))[0]
    hours, _colon, minutes = offset.partition(":")
    shift = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000_000
    return (_time(clock, "") - (shift if sign == "+" else -shift)) % 86_400_000_000


def _interval(value: Value, _: str) -> int:
    if isinstance(value, int | Decimal):
        return int(value)
    found = re.findall(r"(-?\d+) (year|mon|day)", value)
    clock = re.search(r"(-?)(\d+:\d+:[\d.]+)$", value)
    total = sum((Decimal(count) * UNITS[unit] for count, unit in found), Decimal(0))
    if clock:
        total += _time(clock[2], "") * (-1 if clock[1] else 1)
    return int(total)


def _bytes(value: Value, _: str) -> bytes:
    if isinstance(value, str):
        return bytes.fromhex(value[2:]) if value.startswith("\\x") else base64.b64decode(value)
    return bytes(value)


def _json(value: Value, _: str) -> Value:
    return _parsed(value)


def _parsed(value: Value) -> Value:
    if isinstance(value, str):
        return json.loads(value, parse_float=Decimal, parse_int=Decimal)
    return value


READERS: dict[str, Callable[[Value, str], Value]] = {
    "timestamp": _timestamp,
    "time with time": _zoned_time,
    "time": _time,
    "date": _date,
    "interval": _interval,
    "bytea": _bytes,
    "json": _json,
    **dict.fromkeys(NUMBERS, _number),
}
