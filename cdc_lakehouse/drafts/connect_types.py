"""Column types from Kafka Connect's schema blocks, and from plain JSON values."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

BY_NAME = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Timestamp": "timestamp_ntz",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "timestamp_ntz",
    "io.debezium.time.MicroTimestamp": "timestamp_ntz",
    "io.debezium.time.NanoTimestamp": "timestamp_ntz",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.IsoTimestamp": "timestamp_ntz",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.MicroDuration": "bigint",
}
BY_TYPE = {
    "int8": "smallint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "bytes": "binary",
}
WIDENINGS = (
    ("smallint", "int", "bigint"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
)
WHOLE_DIGITS = {"smallint": 5, "int": 10, "bigint": 19}
MOST_DIGITS = 38
BY_PYTHON = {bool: "boolean", int: "bigint", float: "double"}


def column_type(field: Mapping[str, Any]) -> str:
    """Spark SQL type of a field in a schema block; what has no better one is text."""
    name = str(field.get("name") or "")
    if name.endswith(".Decimal"):
        parameters = field.get("parameters") or {}
        precision = parameters.get("connect.decimal.precision", "38")
        return f"decimal({precision},{parameters.get('scale', '0')})"
    if field.get("type") == "array":
        return f"array<{column_type(field['items'])}>"
    if ".time." in name or name.endswith(".Time"):
        return BY_NAME.get(name, "string")
    return BY_NAME.get(name) or BY_TYPE.get(str(field.get("type")), "string")


def common_type(kinds: Iterable[str]) -> str:
    """Spark SQL type that holds the values of several types; text where no other one does."""
    given = sorted(set(kinds))
    if len(given) == 1:
        return given[0]
    for widening in WIDENINGS:
        if set(given) <= set(widening):
            return max(given, key=widening.index)
    digits = [_digits(kind) for kind in given]
    if None in digits:
        return "string"
    whole = max(each[0] for each in digits if each is not None)
    scale = max(each[1] for each in digits if each is not None)
    return f"decimal({whole + scale},{scale})" if whole + scale <= MOST_DIGITS else "string"


def mixed(values: Iterable[object]) -> bool:
    """Whether JSON values are of kinds that only a text column holds together."""
    present = [value for value in values if value is not None]
    kinds = {BY_PYTHON.get(type(value), type(value).__name__) for value in present}
    return len(kinds - {"double"}) > 1 or kinds == {"double", "str"}


def _digits(kind: str) -> tuple[int, int] | None:
    """Digits before and after the point of a whole number's or a decimal's type; None of others."""
    if kind in WHOLE_DIGITS:
        return WHOLE_DIGITS[kind], 0
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def inferred_type(values: Iterable[object]) -> str | None:
    """Spark SQL type that holds all the JSON values; None when all are null."""
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, list) for value in present):
        elements = [element for value in present if isinstance(value, list) for element in value]
        return f"array<{inferred_type(elements) or 'string'}>"
    kinds = {BY_PYTHON.get(type(value), "string") for value in present}
    if kinds == {"bigint", "double"}:
        return "double"
    return min(kinds, default=None) if len(kinds) < 2 else "string"
