"""How a column's value is written in the JSON.

Told by the schema block, else assumed from the type.

Source of the rules: Debezium's data type mappings and Kafka Connect's logical types.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from pyspark.sql import types as T

from lakehouse.table import Source

Kind = Literal[
    "plain", "base64", "base64url", "hex", "decimal", "variable", "precise", "loose",
    "date", "time", "timestamp", "array", "json",
]  # fmt: skip


class Encoding(NamedTuple):
    """What a JSON token stands for.

    `type` is the Spark SQL type the encoding has by itself; `scale` counts the decimals of a
    `decimal` or `precise` number; `unit` is that of ticks; `items` is the encoding of an array's
    elements. `precise` is a number that may be base64, of variable scale or plain; `loose` a text
    that may be a number of variable scale.
    """

    kind: Kind
    type: str
    scale: int = 0
    unit: Literal["guess", "ms", "us", "ns"] = "us"
    items: "Encoding | None" = None


Field = Mapping[str, object]

_CONNECT, _TIME, _DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
_BY_NAME: Mapping[str, Encoding] = {
    _DATA + "VariableScaleDecimal": Encoding("variable", "string"),
    _CONNECT + "Date": Encoding("date", "date"),
    _CONNECT + "Time": Encoding("time", "string", unit="ms"),
    _CONNECT + "Timestamp": Encoding("timestamp", "timestamp_ntz", unit="ms"),
    _TIME + "Date": Encoding("date", "date"),
    _TIME + "Time": Encoding("time", "string", unit="ms"),
    _TIME + "MicroTime": Encoding("time", "string", unit="us"),
    _TIME + "NanoTime": Encoding("time", "string", unit="ns"),
    _TIME + "Timestamp": Encoding("timestamp", "timestamp_ntz", unit="ms"),
    _TIME + "MicroTimestamp": Encoding("timestamp", "timestamp_ntz", unit="us"),
    _TIME + "NanoTimestamp": Encoding("timestamp", "timestamp_ntz", unit="ns"),
    _TIME + "ZonedTimestamp": Encoding("timestamp", "timestamp"),
    _TIME + "IsoDate": Encoding("date", "date"),
    _TIME + "IsoTime": Encoding("time", "string"),
    _TIME + "IsoTimestamp": Encoding("timestamp", "timestamp_ntz"),
}
_BY_TYPE: Mapping[str, Encoding] = {
    "int8": Encoding("plain", "tinyint"),
    "int16": Encoding("plain", "smallint"),
    "int32": Encoding("plain", "int"),
    "int64": Encoding("plain", "bigint"),
    "float": Encoding("plain", "float"),
    "float32": Encoding("plain", "float"),
    "double": Encoding("plain", "double"),
    "float64": Encoding("plain", "double"),
    "boolean": Encoding("plain", "boolean"),
    "string": Encoding("plain", "string"),
    "bytes": Encoding("base64", "binary"),
}
_UNITS: Mapping[str, Literal["guess", "ms", "us", "ns"]] = {
    "connect": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
    "isostring": "us",
}
_BINARY: Mapping[str, Kind] = {"hex": "hex", "base64-url-safe": "base64url"}


def from_block(field: Field) -> Encoding:
    """The encoding of one field of a schema block; JSON text for what has no type of its own."""
    name, type = str(field.get("name")), str(field.get("type"))
    items = field.get("items")
    if name == _CONNECT + "Decimal":
        return _decimal(field.get("parameters"))
    if name in _BY_NAME:
        return _BY_NAME[name]
    if type == "array" and isinstance(items, Mapping):
        element = from_block(items)
        return Encoding("array", f"array<{element.type}>", items=element)
    return _BY_TYPE.get(type, Encoding("json", "string"))


def assumed(type: T.DataType, source: Source) -> Encoding:
    """The encoding of a column of a known type in a record without a schema block."""
    name = type.simpleString()
    precise = source.decimal_handling_mode == "precise"
    if isinstance(type, T.NumericType):
        scale = type.scale if isinstance(type, T.DecimalType) else -1
        return Encoding("precise" if precise else "plain", name, scale)
    if isinstance(type, T.BinaryType):
        return Encoding(_BINARY.get(source.binary_handling_mode, "base64"), name)
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        return Encoding("timestamp", name, unit=_UNITS.get(source.time_precision_mode, "guess"))
    if isinstance(type, T.ArrayType):
        return Encoding("array", name, items=assumed(type.elementType, source))
    if isinstance(type, T.StringType):
        return Encoding("loose" if precise else "plain", name)
    return Encoding("date" if isinstance(type, T.DateType) else "plain", name)


def in_mode(encoding: Encoding, type: T.DataType, source: Source) -> Encoding:
    """The block's encoding, unless only the binary handling mode tells that a text holds bytes."""
    text = encoding.kind == "plain" and encoding.type == "string"
    return assumed(type, source) if text and isinstance(type, T.BinaryType) else encoding


def _decimal(parameters: object) -> Encoding:
    known = parameters if isinstance(parameters, Mapping) else {}
    scale = _whole(known.get("scale"), 0)
    precision = _whole(known.get("connect.decimal.precision"), 38)
    if not 0 <= scale <= precision <= 38:
        return Encoding("decimal", "string", scale)
    return Encoding("decimal", f"decimal({precision},{scale})", scale)


def _whole(text: object, otherwise: int) -> int:
    return int(str(text)) if re.fullmatch(r"-?\d{1,5}", str(text)) else otherwise
