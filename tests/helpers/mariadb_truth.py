"""What MariaDB holds and what gold shows, as texts in which equal values are equal."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

TRUE_NAMES = {"mixed_case": "Mixed Case"}
TYPES = (
    "SELECT column_name, column_type FROM information_schema.columns"
    " WHERE table_schema = 'shop' AND table_name = '{}' ORDER BY ordinal_position"
)

Query = Callable[[str], Sequence[tuple[Any, ...]]]
Row = dict[str, str | None]


def types_of(query: Query, table: str) -> dict[str, str]:
    """The columns of a table, named as gold names it, and their types at the source."""
    return dict(query(TYPES.format(TRUE_NAMES.get(table, table))))


def source_rows(query: Query, table: str, types: Mapping[str, str]) -> list[Row]:
    """All rows of a table; `query` runs in UTC."""
    listed = ", ".join(_selected(f"`{name}`", type) for name, type in types.items())
    found = query(f"SELECT {listed} FROM `{TRUE_NAMES.get(table, table)}`")
    return [_row(dict(zip(types, values, strict=True)), types) for values in found]


def gold_rows(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> list[Row]:
    """Gold's rows, without columns that the source no longer has."""
    return [
        _row({name: _written(row.get(name), type) for name, type in types.items()}, types)
        for row in rows
    ]


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def _selected(name: str, type: str) -> str:
    if type.startswith("bit"):
        return f"CAST({name} + 0 AS CHAR)"
    if type.startswith("float"):
        return f"CAST({name} + 0e0 AS CHAR)"
    is_bytes = "blob" in type or "binary" in type
    return f"HEX({name})" if is_bytes else f"CAST({name} AS CHAR)"


def _written(value: Any, type: str) -> str | None:
    """A value of gold as MariaDB writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes | bytearray):
        is_bit = type.startswith("bit")
        return str(int.from_bytes(value, "little")) if is_bit else value.hex().upper()
    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc) if value.tzinfo else value
        return utc.replace(tzinfo=None).isoformat(" ")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _row(row: Mapping[str, str | None], types: Mapping[str, str]) -> Row:
    return {name: text and _plain(text, types[name]) for name, text in row.items()}


def _plain(text: str, type: str) -> str:
    """The same text for equal numbers, and for equal times."""
    if type.startswith(("float", "double")):
        return repr(float(text))
    if type.startswith("time") and not type.startswith("timestamp"):
        return _micros(text)
    if type.startswith(("timestamp", "datetime", "decimal")) and "." in text:
        return text.rstrip("0").rstrip(".")
    return text


def _micros(text: str) -> str:
    """The microseconds of a time; without a schema block gold has them as Debezium counts them."""
    if ":" not in text:
        return text
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)
    return str(-whole if text.startswith("-") else whole)
