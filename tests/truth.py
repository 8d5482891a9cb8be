"""The captured tables' true contents, and one form in which a gold row and a true row can be compared."""

import json
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

SHOP = Path(__file__).parent / "fixtures" / "shop"
_DAY = 86_400_000_000
_UNITS = {"year": 365.25, "mon": 365.25 / 12, "day": 1}


def events(capture: str) -> Path:
    return SHOP / "events" / f"{capture}.jsonl.gz"


def truth(capture: str, table: str) -> list[dict[str, Any]]:
    """The rows that PostgreSQL held at the end; none for a table that was empty."""
    file = SHOP / "truth" / capture / f"{table}.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    types = column_types(capture, table)
    rows = [json.loads(line, parse_float=Decimal) for line in lines]
    return _sorted([{c: _canonical(types[c], row[c]) for c in row} for row in rows])


def column_types(capture: str, table: str) -> dict[str, str]:
    tables = json.loads((SHOP / "truth" / capture / "schema.json").read_text())["tables"]
    return {column["name"]: column["type"] for column in tables[table]["columns"]}


def comparable(capture: str, table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gold's rows, as collected, in the form of `truth`."""
    types = column_types(capture, table)
    return _sorted([{c: _canonical(types.get(c, ""), row[c]) for c in row} for row in rows])


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def _canonical(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind.startswith("numeric") or kind in ("real", "double precision"):
        return round(float(value), 6) if kind != "numeric" else float(value)
    if kind in ("json", "jsonb"):
        return json.loads(value) if isinstance(value, str) else _plain(value)
    if kind == "bytea":
        return value.hex() if isinstance(value, bytes | bytearray) else value[2:]
    if kind.startswith("timestamp"):
        return _moment(value)
    if kind.startswith("time"):
        return _time_of_day(value)
    if kind == "interval":
        return value if isinstance(value, int) else _interval(value)
    return value.isoformat() if isinstance(value, date) else value


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=float))


def _moment(value: Any) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(re.sub(r"\.(\d+)", lambda m: "." + m[1].ljust(6, "0")[:6], value))
    if value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    return value.astimezone(timezone.utc)


def _time_of_day(value: Any) -> int:
    """Microseconds since midnight, in UTC where the value has a zone."""
    text = str(value)
    if text.isdigit():
        return int(text) * (1000 if int(text) < _DAY // 1000 + 1 else 1)
    found = re.fullmatch(r"(\d+):(\d+):(\d+)(?:\.(\d+))?(Z|[+-]\d+(?::\d+)?)?", text)
    assert found is not None, text
    hours, minutes, seconds, fraction, zone = found.groups()
    at = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000
    at += int((fraction or "0").ljust(6, "0"))
    offset = 0 if zone in (None, "Z") else int(zone.split(":")[0]) * 3_600_000_000
    return (at - offset) % _DAY if zone else at


def _interval(text: str) -> int:
    days = sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"(-?\d+) (year|mon|day)", text))
    clock = re.search(r"(-?)(\d+):(\d+):([\d.]+)", text)
    seconds = 0.0
    if clock:
        seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + float(clock[4])
        seconds = -seconds if clock[1] else seconds
    return round(days * _DAY + seconds * 1_000_000)
