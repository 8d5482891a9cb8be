"""How a column's value is written in JSON: given by the schema block, else assumed from its type.

Each record is decoded by its own block, because the scale of a number can change in the middle of
a stream.

Source of the rules: Debezium's data type mappings and Kafka Connect's logical types.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from pyspark.sql import types as T

from lakehouse.config.source import Source
from silver.decode.avro.schemas import connect_block, is_avro
from silver.decode.types import CONNECT_TYPES
from silver.decode.values.json_values import NotJson, parse_json

Kind = Literal[
    "plain", "base64", "base64url", "hex", "octets", "decimal", "variable", "loose",
    "precise", "packed", "written", "unsure",
    "date", "time", "timestamp", "array", "json",
]  # fmt: skip
Unit = Literal["guess", "ms", "us", "ns"]
Field = Mapping[str, object]
_BLOCKS = 256


class Encoding(NamedTuple):
    """What a JSON value stands for.

    `type` is the Spark type that the encoding has by itself; `scale` counts the decimals of a
    decimal number; `unit` is that of ticks; `items` is the encoding of an array's elements. `loose`
    is a text that may be a number of variable scale. `octets` is base64, but for a text that can be
    hex digits, which does not fit. The other kinds are numbers that may be plain
    JSON numbers or of variable scale; they differ in what a text is: `precise` base64 wherever it
    can be base64, `packed` always base64, `written` always a number as people write it, `unsure`
    the one of both that it can be; a text that can be both does not fit.
    """

    kind: Kind
    type: T.DataType
    scale: int = 0
    unit: Unit = "us"
    items: "Encoding | None" = None


_TEXT, _NTZ = T.StringType(), T.TimestampNTZType()
_CONNECT, _TIME, _DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
_TIMES_OF_DAY = ("Time", "ZonedTime", "Duration")
_BY_NAME: Mapping[str, Encoding] = {
    _DATA + "VariableScaleDecimal": Encoding("variable", _TEXT),
    _CONNECT + "Date": Encoding("date", T.DateType()),
    _CONNECT + "Time": Encoding("time", _TEXT, unit="ms"),
    _CONNECT + "Timestamp": Encoding("timestamp", _NTZ, unit="ms"),
    _TIME + "Date": Encoding("date", T.DateType()),
    _TIME + "Time": Encoding("time", _TEXT, unit="ms"),
    _TIME + "MicroTime": Encoding("time", _TEXT, unit="us"),
    _TIME + "NanoTime": Encoding("time", _TEXT, unit="ns"),
    _TIME + "Timestamp": Encoding("timestamp", _NTZ, unit="ms"),
    _TIME + "MicroTimestamp": Encoding("timestamp", _NTZ, unit="us"),
    _TIME + "NanoTimestamp": Encoding("timestamp", _NTZ, unit="ns"),
    _TIME + "ZonedTimestamp": Encoding("timestamp", T.TimestampType()),
    _TIME + "IsoDate": Encoding("date", T.DateType()),
    _TIME + "IsoTime": Encoding("time", _TEXT),
    _TIME + "IsoTimestamp": Encoding("timestamp", _NTZ),
    _TIME + "StructuredDate": Encoding("date", T.DateType()),
    _TIME + "StructuredTimestamp": Encoding("timestamp", _NTZ),
    _TIME + "StructuredZonedTimestamp": Encoding("timestamp", T.TimestampType()),
    **{_TIME + f"Structured{one}": Encoding("time", _TEXT) for one in _TIMES_OF_DAY},
}
_UNITS: Mapping[str, Unit] = {
    "connect": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
    "isostring": "us",
}
_KINDS_OF_TEXTS: Mapping[str, Kind] = {"base64": "packed", "plain": "written"}
_BINARY: Mapping[str, Kind] = {"hex": "hex", "base64-url-safe": "base64url"}


def from_block(field: Field) -> Encoding:
    """The encoding of one field of a schema block; JSON text for what has no type of its own."""
    name, type = str(field.get("name")), str(field.get("type"))
    items = field.get("items")
    if name == _CONNECT + "Decimal":
        return _decimal_encoding(field.get("parameters"))
    if name in _BY_NAME:
        return _BY_NAME[name]
    if type == "array" and isinstance(items, Mapping):
        element = from_block(items)
        return Encoding("array", T.ArrayType(element.type), items=element)
    if type not in CONNECT_TYPES:
        return Encoding("json", _TEXT)
    return Encoding("base64" if type == "bytes" else "plain", CONNECT_TYPES[type])


def assume_encoding(type: T.DataType, source: Source, decimal_texts: str | None = None) -> Encoding:
    """The encoding of a column of a known type in a record without a schema block.

    `decimal_texts` is what other records of the source show, as `Columns` has it. It counts where
    the table does not declare the decimal handling mode.
    """
    if isinstance(type, T.NumericType):
        return _assume_number(type, source, decimal_texts)
    if isinstance(type, T.BinaryType):
        kind = _BINARY.get(source.binary_handling_mode, "base64")
        return Encoding(kind if declares_binaries(source) else "octets", type)
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        return Encoding("timestamp", type, unit=_UNITS.get(source.time_precision_mode, "guess"))
    if isinstance(type, T.ArrayType):
        items = assume_encoding(type.elementType, source, decimal_texts)
        return Encoding("array", type, items=items)
    if isinstance(type, T.StringType):
        return Encoding("loose" if source.decimal_handling_mode == "precise" else "plain", type)
    return Encoding("date" if isinstance(type, T.DateType) else "plain", type)


def _assume_number(type: T.NumericType, source: Source, decimal_texts: str | None) -> Encoding:
    scale = type.scale if isinstance(type, T.DecimalType) else -1
    if scale >= 0 and not declares_decimals(source):
        return Encoding(_KINDS_OF_TEXTS.get(decimal_texts or "", "unsure"), type, scale)
    kind: Kind = "precise" if source.decimal_handling_mode == "precise" else "plain"
    return Encoding(kind, type, scale)


def declares_decimals(source: Source) -> bool:
    """Whether the table's YAML says how the source writes decimals."""
    return "decimal_handling_mode" in source.model_fields_set


def declares_binaries(source: Source) -> bool:
    """Whether the table's YAML says how the source writes bytes."""
    return "binary_handling_mode" in source.model_fields_set


def holds_decimals(type: T.DataType) -> bool:
    """Whether values of a type are decimals, or arrays of them."""
    element = type.elementType if isinstance(type, T.ArrayType) else type
    return isinstance(element, T.DecimalType)


def in_mode(encoding: Encoding, type: T.DataType, source: Source) -> Encoding:
    """The block's encoding, unless only the binary handling mode says that a text holds bytes."""
    text = encoding.kind == "plain" and isinstance(encoding.type, T.StringType)
    return assume_encoding(type, source) if text and isinstance(type, T.BinaryType) else encoding


def _decimal_encoding(parameters: object) -> Encoding:
    members = parameters if isinstance(parameters, Mapping) else {}
    scale = _parse_whole(members.get("scale"), 0)
    precision = _parse_whole(members.get("connect.decimal.precision"), 38)
    fits = 0 <= scale <= precision <= 38
    return Encoding("decimal", T.DecimalType(precision, scale) if fits else _TEXT, scale)


def _parse_whole(text: object, otherwise: int) -> int:
    return int(str(text)) if re.fullmatch(r"-?\d{1,5}", str(text)) else otherwise


@lru_cache(_BLOCKS)
def block_fields(block: bytes) -> Mapping[str, Encoding]:
    """The fields of `after` in a schema block, in its order; none in a text that is no such block.

    Heartbeats, transaction markers and schema changes come with blocks that have none.
    """
    members = _list_fields(_parse_block(block))
    afters = (member for member in members if member.get("field") == "after")
    return _read_encodings(field for after in afters for field in _list_fields(after))


@lru_cache(_BLOCKS)
def row_block_fields(block: bytes) -> Mapping[str, Encoding]:
    """The fields of a schema block that describes a row and no envelope, in its order."""
    return _read_encodings(
        f for f in _list_fields(_parse_block(block)) if not str(f.get("field")).startswith("__")
    )


@lru_cache(_BLOCKS)
def block_defaults(block: bytes) -> Mapping[str, object]:
    """The defaults of the fields of `before`, or of a row, in a schema block."""
    members = list(_list_fields(_parse_block(block)))
    before = next((m for m in members if m.get("field") == "before"), None)
    fields = members if before is None else _list_fields(before)
    return {str(f["field"]): f["default"] for f in fields if "field" in f and "default" in f}


def _read_encodings(fields: Iterable[Field]) -> Mapping[str, Encoding]:
    return {str(field["field"]): from_block(field) for field in fields if "field" in field}


def _parse_block(block: bytes) -> object:
    """A block's members; those of an Avro schema as Kafka Connect would have them."""
    members = _parse_members(block)
    return connect_block(members) if is_avro(members) else members


def _parse_members(block: bytes) -> object:
    try:
        return parse_json(block)
    except NotJson:
        return None


@lru_cache(_BLOCKS)
def is_avro_block(block: bytes) -> bool:
    """Whether a schema block is the Avro schema that wrote a record's values."""
    return is_avro(_parse_members(block))


def _list_fields(block: object) -> Iterator[Field]:
    inner = block.get("fields") if isinstance(block, Mapping) else None
    return (f for f in inner if isinstance(f, Mapping)) if isinstance(inner, list) else iter(())
