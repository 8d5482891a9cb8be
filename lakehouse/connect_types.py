"""Column types from Kafka Connect's schema blocks, and from plain JSON values."""

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
