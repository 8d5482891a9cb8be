"""JSON values as values of a column's type: exact, or a misfit.

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
| date, timestamp | the texts that `silver.decode.values.time_texts` describes |
| timestamp_ntz | as a timestamp; its zone does not count |
| binary | base64, white space and missing padding allowed |
| array, map, struct | a JSON array or object, or text that is one; every value inside must fit; |
| | a struct's fields are known by their names without regard to case |
| variant | a JSON object or array, a number or boolean, or text that is JSON; becomes JSON text, |
| | and so does an array, map or struct that holds variants |

White space around numbers and booleans does not count.
"""

import base64
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TypeVar

from pyspark.sql import types as T

from silver.decode.types import BLANKS, Misfit
from silver.decode.values.json_values import NotJson, NumberText, json_text, parse_json, text_of
from silver.decode.values.time_texts import date_of, timestamp_of
from silver.decode.values.typed_json import plain_value

Converter = Callable[[object], object]
"""Takes a JSON value that is not null, gives what pyarrow takes for the column's Arrow type.

Timestamps are microseconds and dates days since 1970, maps lists of pairs, structs dictionaries.
"""

LONGEST_SHOWN = 80
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_SPECIAL_NUMBER = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE)
_BLANKS_OF_BASE64 = str.maketrans("", "", " \t\r\n")
_ONE = Decimal(1)
_TO_WHOLE = Context(prec=40, traps=[Inexact, InvalidOperation])
_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))


def converter(data_type: T.DataType) -> Converter:
    """The function that turns JSON values other than null into values of the type.

    It raises `Misfit` for a value that does not fit.

    Raises:
        TypeError: no column of a Delta table is of this type.
    """
    for kind, make in _MAKERS:
        if isinstance(data_type, kind):
            made = make(data_type)
            return _as_json_text(made, data_type) if _holds_variants(data_type) else made
    raise TypeError(f"found {data_type.simpleString()}, expected a type of a Delta column")


def misfit_message(name: str, value: object, data_type: T.DataType, hidden: bool = False) -> str:
    """What was found in a column and what was expected, for a person.

    The value of a sensitive column (`hidden`) is not shown.
    """
    shown = "a value that is not shown" if hidden else f"'{text_of(value)[:LONGEST_SHOWN]}'"
    return f"column {name}: found {shown}, expected {data_type.simpleString()}"


def _text(data_type: T.DataType) -> Converter:
    return lambda value: value if type(value) is str else text_of(value)


def _whole(data_type: T.DataType) -> Converter:
    limit = 1 << {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[data_type.simpleString()]

    def convert(value: object) -> int:
        number = value if type(value) is int else _whole_number(text_of(value).strip(BLANKS))
        if not -limit <= number < limit:
            raise Misfit(value)
        return number

    return convert


def _whole_number(text: str) -> int:
    if _WHOLE.fullmatch(text):
        return int(text)
    return int(_rescaled(_number(text), _ONE, _TO_WHOLE))


def _decimal(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.DecimalType)
    unit = _ONE.scaleb(-data_type.scale)
    context = Context(prec=data_type.precision, traps=[Inexact, InvalidOperation])

    def convert(value: object) -> Decimal:
        if type(value) is int:
            return _rescaled(Decimal(value), unit, context)
        return _rescaled(_number(text_of(value).strip(BLANKS)), unit, context)

    return convert


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise Misfit(text)
    return Decimal(text)


def _rescaled(number: Decimal, unit: Decimal, context: Context) -> Decimal:
    """The number with the digits behind the point that `unit` has, if none is lost."""
    try:
        return number.quantize(unit, context=context)
    except (Inexact, InvalidOperation):
        raise Misfit(number) from None


def _floating(data_type: T.DataType) -> Converter:
    single = isinstance(data_type, T.FloatType)

    def convert(value: object) -> float:
        if isinstance(value, NumberText):
            number = float(value)
        else:
            text = text_of(value).strip(BLANKS)
            if _SPECIAL_NUMBER.fullmatch(text):
                return float(text)
            number = float(text) if _NUMBER.fullmatch(text) else math.inf
        if math.isinf(number):
            raise Misfit(value)
        return _single(number) if single else number

    return convert


def _single(number: float) -> float:
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise Misfit(number) from None
    return number


def _boolean(data_type: T.DataType) -> Converter:
    def convert(value: object) -> bool:
        if isinstance(value, bool):
            return value
        text = text_of(value).strip(BLANKS).lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise Misfit(value)

    return convert


def _date(data_type: T.DataType) -> Converter:
    return lambda value: date_of(text_of(value))


def _timestamp(data_type: T.DataType) -> Converter:
    zoned = not isinstance(data_type, T.TimestampNTZType)
    return lambda value: timestamp_of(text_of(value), zoned)


def _binary(data_type: T.DataType) -> Converter:
    def convert(value: object) -> bytes:
        text = text_of(value).translate(_BLANKS_OF_BASE64)
        digits = text.rstrip("=")
        if len(digits) % 4 == 0 and digits != text:
            raise Misfit(value)
        try:
            return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
        except ValueError:
            raise Misfit(value) from None

    return convert


def _array(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.ArrayType)
    element = converter(data_type.elementType)

    def convert(value: object) -> list[object]:
        return [None if one is None else element(one) for one in opened_value(value, list)]

    return convert


def _map(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.MapType)
    key, item = converter(data_type.keyType), converter(data_type.valueType)

    def convert(value: object) -> list[tuple[object, object]]:
        members = opened_value(value, dict).items()
        pairs = [(key(name), None if one is None else item(one)) for name, one in members]
        if len({repr(name) for name, _ in pairs}) < len(pairs):
            raise Misfit(value)
        return pairs

    return convert


def _struct(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.StructType)
    fields = [(field.name, converter(field.dataType)) for field in data_type.fields]
    names = {name.lower(): name for name, _ in fields}
    wanted = set(names.values())

    def convert(value: object) -> dict[str, object]:
        members = opened_value(value, dict)
        if not wanted <= members.keys():
            members = {names.get(n.lower(), n): one for n, one in members.items()} | members
        found = ((name, members.get(name), made) for name, made in fields)
        return {name: None if one is None else made(one) for name, one, made in found}

    return convert


def _variant(data_type: T.DataType) -> Converter:
    return lambda value: json_text(_parsed(value) if isinstance(value, str) else value)


def _holds_variants(data_type: T.DataType) -> bool:
    return "variant" in data_type.simpleString() and not isinstance(data_type, T.VariantType)


def _as_json_text(convert: Converter, data_type: T.DataType) -> Converter:
    """JSON text of the converted value; Arrow carries no variants, inside of another value neither.

    Spark reads the text without converting anything, so each value in it is written in its type.
    """

    def checked(value: object) -> str:
        return json_text(plain_value(convert(value), data_type))

    return checked


Opened = TypeVar("Opened")


def opened_value(value: object, expected: type[Opened]) -> Opened:
    """The array or object that a value, or the JSON text in it, is."""
    found = _parsed(value) if isinstance(value, str) else value
    if not isinstance(found, expected):
        raise Misfit(value)
    return found


def _parsed(text: str) -> object:
    try:
        return parse_json(text)
    except NotJson:
        raise Misfit(text) from None


_MAKERS: tuple[tuple[type[T.DataType], Callable[[T.DataType], Converter]], ...] = (
    (T.StringType, _text),
    (T.CharType, _text),
    (T.VarcharType, _text),
    (T.IntegralType, _whole),
    (T.DecimalType, _decimal),
    (T.FractionalType, _floating),
    (T.BooleanType, _boolean),
    (T.DateType, _date),
    (T.TimestampType, _timestamp),
    (T.TimestampNTZType, _timestamp),
    (T.BinaryType, _binary),
    (T.ArrayType, _array),
    (T.MapType, _map),
    (T.StructType, _struct),
    (T.VariantType, _variant),
)
