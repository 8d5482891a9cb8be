"""JSON values as values of a column's type: exact, or a misfit.

`_MAKERS` is the table of converters by the column's type; what a value stands for, where it is not
just JSON, is its encoding.

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
| date, timestamp | the texts that `silver.decode.values.times` describes |
| timestamp_ntz | as a timestamp; its zone does not count |
| binary | base64, white space and missing padding allowed |
| array, map, struct | a JSON array or object, or text that is one; every value inside must fit; |
| | a struct's fields are known by their names without regard to case |
| variant | a JSON object or array, a number or boolean, or text that is JSON; becomes JSON text, |
| | and so does an array, map or struct that holds variants |

White space around numbers and booleans does not count.
"""

import base64
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from pyspark.sql import types as T

from lakehouse.config.records.envelope import FLAGS
from silver.decode.types import BLANKS, Misfit
from silver.decode.values import numbers, times
from silver.decode.values.encodings import Encoding, Kind
from silver.decode.values.json_values import (
    NotJson,
    NumberText,
    json_text,
    parse_json,
    special_text,
    text_of,
)
from silver.decode.values.numbers import Converter

LONGEST_SHOWN = 80
_OUTSIDE = (
    " of the years 1 to 9999; declare its type with `infinity: null` or `infinity: clamp`"
    " in conf/tables/{}.yml"
)
_NO_NUMBER = ", which has no NaN and no infinity; declare double, float or string for such a column"
_MILLISECOND = 1_000
_LENGTH_OF_DATE = len("YYYY-MM-DD")
_HEX, _SURELY_HEX = re.compile("(?:[0-9a-f]{2})+"), 8
_TRUE, _FALSE = frozenset(FLAGS["true"]), frozenset(FLAGS["false"])


def converter_of(encoding: Encoding | None, type: T.DataType, sourced: bool = True) -> Converter:
    """The function that turns JSON values other than null into values of the column's type.

    It raises `Misfit` for a value that does not fit. Where the column's type is not the encoding's
    own, a value that fits is converted.

    Args:
        encoding: what the JSON values stand for; None for plain values of the column's type.
        type: the column's type.
        sourced: whether the record has a source block. One without is not Debezium's own JSON, and
            its numbers are plain.

    Raises:
        TypeError: no column of a Delta table is of this type.
    """
    if encoding is not None and not sourced:
        encoding = _without_packed_numbers(encoding)
    for kind, make in _MAKERS:
        if isinstance(type, kind):
            made = make(encoding, type)
            if kind is T.VariantType or "variant" not in type.simpleString():
                return made
            # Arrow carries no variants, inside of another value neither. Spark reads the text
            # without converting anything, so each value in it is written in its type.
            return lambda value: json_text(plain_value(made(value), type))
    raise TypeError(f"found {type.simpleString()}, expected a type of a Delta column")


def converter_of_type(type: T.DataType) -> Converter:
    """The converter of plain values; see `converter_of`."""
    return converter_of(None, type)


def handle_infinity(convert: Converter, infinity: str | None) -> Converter:
    """A converter that takes moments outside of the years 1 to 9999 as a column declares them.

    Args:
        convert: the column's converter, which refuses them.
        infinity: `null`, or `clamp` for the first or last moment; None where nothing is declared.
    """
    if infinity is None:
        return convert

    def convert_all(value: object) -> object:
        try:
            return convert(value)
        except times.Beyond as error:
            return None if infinity == "null" else _convert_end(convert, error.is_after)

    return convert_all


def _convert_end(convert: Converter, is_last: bool) -> object:
    """The first or last moment of the years 1 to 9999; its day, where the column holds days."""
    end = times.ENDS[is_last]
    try:
        return convert(end)
    except Misfit:
        return convert(end[:_LENGTH_OF_DATE])


def refuse(value: object) -> object:
    """The converter of a column whose type the block's type cannot become: no value fits."""
    raise Misfit(value)


def can_be_hex(text: str) -> bool:
    """Whether text can be hex digits as Debezium writes them; hardly any base64 of so much can."""
    is_long = len(text) >= _SURELY_HEX or len(text) % 4 == 2
    return is_long and _HEX.fullmatch(text) is not None


def misfit_message(
    name: str, value: object, data_type: T.DataType, hidden: bool = False, table: str = "T"
) -> str:
    """What was found in a column of a table and what was expected, for a person.

    The value of a sensitive column (`hidden`) is not shown.
    """
    shown = "a value that is not shown" if hidden else f"'{text_of(value)[:LONGEST_SHOWN]}'"
    message = f"column {name}: found {shown}, expected {data_type.simpleString()}"
    is_date = isinstance(data_type, T.DateType)
    is_moment = is_date or isinstance(data_type, T.TimestampType | T.TimestampNTZType)
    is_special = isinstance(value, str) and numbers.is_special(value.strip(BLANKS))
    if is_special and isinstance(data_type, T.DecimalType | T.IntegralType):
        return message + _NO_NUMBER
    is_outside = is_moment and times.lies_beyond(value, is_date)
    return message + _OUTSIDE.format(table) if is_outside else message


def _without_packed_numbers(encoding: Encoding) -> Encoding:
    scale = -1 if encoding.kind in numbers.MIXED else encoding.scale
    items = encoding.items and _without_packed_numbers(encoding.items)
    return encoding._replace(scale=scale, items=items)


def _text_converter(encoding: Encoding | None, data_type: T.DataType) -> Converter:
    if encoding is None or encoding.kind not in _TEXTS:
        return lambda value: value if type(value) is str else text_of(value)
    if encoding.kind == "timestamp" and not isinstance(encoding.type, T.TimestampNTZType):
        return _text_converter(None, data_type)
    to_text = _TEXTS[encoding.kind]
    return lambda value: to_text(encoding, value)


def _decimal_text(encoding: Encoding, value: object) -> str:
    """Base64; a plain number is Kafka Connect's `decimal.format` NUMERIC."""
    if numbers.is_number(value):
        return text_of(value)
    return numbers.scaled_text(numbers.packed_integer(value), encoding.scale)


def _loose_text(encoding: Encoding, value: object) -> str:
    if numbers.is_variable(value):
        return numbers.scaled_text(*numbers.variable_parts(value))
    return text_of(value)


_TEXTS: Mapping[Kind, Callable[[Encoding, object], str]] = {
    "decimal": _decimal_text,
    "variable": lambda _, value: numbers.scaled_text(*numbers.variable_parts(value)),
    "loose": _loose_text,
    "date": lambda _, value: times.date_text(times.date_value(value)),
    "time": lambda encoding, value: times.time_text(value, encoding.unit),
    "timestamp": lambda encoding, value: times.timestamp_text(
        times.timestamp_value(value, encoding.unit, zoned=False)
    ),
}


def _to_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = text_of(value).strip(BLANKS).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise Misfit(value)


def _date_converter(encoding: Encoding | None, type: T.DataType) -> Converter:
    if encoding is None:
        return lambda value: times.date_of(text_of(value))
    if _is_no_moment(encoding):
        return refuse
    if encoding.kind == "timestamp":
        unit = encoding.unit
        return lambda value: times.timestamp_value(value, unit, zoned=False) // times.DAY_MICROS
    return times.date_value


def _timestamp_converter(encoding: Encoding | None, type: T.DataType) -> Converter:
    zoned = not isinstance(type, T.TimestampNTZType)
    if encoding is None:
        return lambda value: times.timestamp_of(text_of(value), zoned)
    if _is_no_moment(encoding):
        return refuse
    if encoding.kind == "date":
        return lambda value: times.date_value(value) * times.DAY_MICROS
    unit = encoding.unit
    return lambda value: times.timestamp_value(value, unit, zoned)


def _is_no_moment(encoding: Encoding) -> bool:
    """Whether values are times of day, or plain numbers by a schema block."""
    is_number = encoding.kind == "plain" and isinstance(encoding.type, T.NumericType)
    return is_number or encoding.kind == "time"


def _binary_converter(encoding: Encoding | None, data_type: T.DataType) -> Converter:
    kind = "plain" if encoding is None else encoding.kind
    if kind == "hex":
        return _from_hex
    alternative = b"-_" if kind == "base64url" else None

    def convert(value: object) -> bytes:
        if kind != "plain" and type(value) is not str:
            raise Misfit(value)
        text = "".join(text_of(value).split())
        if kind == "octets" and can_be_hex(text):
            raise Misfit(value)
        return _from_base64(text, alternative)

    return convert


def _from_base64(text: str, alternative: bytes | None) -> bytes:
    """The bytes of base64 without white space, whose padding may be missing."""
    digits = text.rstrip("=")
    if len(digits) % 4 == 0 and digits != text:
        raise Misfit(text)
    try:
        padded = digits + "=" * (-len(digits) % 4)
        return base64.b64decode(padded, altchars=alternative, validate=True)
    except ValueError:
        raise Misfit(text) from None


def _from_hex(value: object) -> bytes:
    try:
        return bytes.fromhex(text_of(value))
    except ValueError:
        raise Misfit(value) from None


def _array_converter(encoding: Encoding | None, type: T.DataType) -> Converter:
    assert isinstance(type, T.ArrayType)
    items = encoding and (encoding.items or Encoding("plain", type.elementType))
    element = converter_of(items, type.elementType)

    def convert(value: object) -> list[object]:
        return [None if one is None else element(one) for one in opened_value(value, list)]

    return convert


def _map_converter(encoding: Encoding | None, type: T.DataType) -> Converter:
    assert isinstance(type, T.MapType)
    key, item = converter_of_type(type.keyType), converter_of_type(type.valueType)

    def convert(value: object) -> list[tuple[object, object]]:
        members = opened_value(value, dict).items()
        pairs = [(key(name), None if one is None else item(one)) for name, one in members]
        if len({repr(name) for name, _ in pairs}) < len(pairs):
            raise Misfit(value)
        return pairs

    return convert


def _struct_converter(encoding: Encoding | None, type: T.DataType) -> Converter:
    assert isinstance(type, T.StructType)
    fields = [(field.name, converter_of_type(field.dataType)) for field in type.fields]
    names = {name.lower(): name for name, _ in fields}
    wanted = set(names.values())

    def convert(value: object) -> dict[str, object]:
        members = opened_value(value, dict)
        if not wanted <= members.keys():
            members = {names.get(n.lower(), n): one for n, one in members.items()} | members
        triples = ((name, members.get(name), made) for name, made in fields)
        return {name: None if one is None else made(one) for name, one, made in triples}

    return convert


def _to_variant(value: object) -> str:
    return json_text(_parse_text(value) if isinstance(value, str) else value)


Opened = TypeVar("Opened")


def opened_value(value: object, expected: type[Opened]) -> Opened:
    """The array or object that a value, or the JSON text in it, is."""
    opened = _parse_text(value) if isinstance(value, str) else value
    if not isinstance(opened, expected):
        raise Misfit(value)
    return opened


def _parse_text(text: str) -> object:
    try:
        return parse_json(text)
    except NotJson:
        raise Misfit(text) from None


def plain_value(value: object, type: T.DataType) -> object:
    """A value of a column's type as JSON has it and Spark's `from_json` reads it.

    Of a struct, members that are null are left out. A timestamp has three digits of fraction, or
    six where it needs them.
    """
    for kind, of, plain in _PLAIN_VALUES:
        if isinstance(value, kind) and isinstance(type, of):
            return plain(value, type)
    return value


def _plain_members(value: Mapping[str, object], type: T.StructType) -> object:
    members = {f.name: (value[f.name], f.dataType) for f in type.fields}
    return {name: plain_value(v, of) for name, (v, of) in members.items() if v is not None}


def _plain_float(value: float, type: T.DataType) -> object:
    return NumberText(repr(value)) if value - value == 0 else special_text(value)


def _plain_items(value: list[object], type: T.DataType) -> object:
    if isinstance(type, T.MapType):
        pairs = [pair for pair in value if isinstance(pair, tuple)]
        named = {str(plain_value(key, type.keyType)): item for key, item in pairs}
        return {key: plain_value(item, type.valueType) for key, item in named.items()}
    element = type.elementType if isinstance(type, T.ArrayType) else T.StringType()
    return [plain_value(item, element) for item in value]


def _timestamp_text(micros: int) -> str:
    day, _, clock = times.timestamp_text(micros).partition(" ")
    whole, _, fraction = clock.partition(".")
    digits = 3 if micros % _MILLISECOND == 0 else 6
    return f"{day}T{whole}.{fraction.ljust(digits, '0')}"


Make = Callable[[Encoding | None, T.DataType], Converter]
_MAKERS: tuple[tuple[type[T.DataType], Make], ...] = (
    (T.StringType, _text_converter),
    (T.CharType, _text_converter),
    (T.VarcharType, _text_converter),
    (T.NumericType, numbers.number_converter),
    (T.BooleanType, lambda *_: _to_boolean),
    (T.DateType, _date_converter),
    (T.TimestampType, _timestamp_converter),
    (T.TimestampNTZType, _timestamp_converter),
    (T.BinaryType, _binary_converter),
    (T.ArrayType, _array_converter),
    (T.MapType, _map_converter),
    (T.StructType, _struct_converter),
    (T.VariantType, lambda *_: _to_variant),
)
_PLAIN_VALUES: tuple[tuple[type, type[T.DataType], Callable[[Any, Any], object]], ...] = (
    (str, T.VariantType, lambda value, _: msgspec.Raw(value.encode())),
    (list, T.DataType, lambda value, type: _plain_items(value, type)),
    (dict, T.StructType, _plain_members),
    (int, T.DateType, lambda value, _: times.date_text(value)),
    (int, T.TimestampType, lambda value, _: _timestamp_text(value) + "Z"),
    (int, T.TimestampNTZType, lambda value, _: _timestamp_text(value)),
    (Decimal, T.DecimalType, lambda value, type: NumberText(f"{value:.{type.scale}f}")),
    (float, T.DataType, _plain_float),
    (bytes, T.DataType, lambda value, _: base64.b64encode(value).decode()),
)
