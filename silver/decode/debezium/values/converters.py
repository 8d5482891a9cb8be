"""JSON values in Debezium's encodings as values of a column's type: exact, or a misfit."""

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial

from pyspark.sql import types as T

from silver.decode.debezium.values import moments, numbers
from silver.decode.debezium.values.encodings import Encoding
from silver.decode.types import Misfit
from silver.decode.values.json_values import NumberText, text_of
from silver.decode.values.typed_json import date_text, timestamp_text
from silver.decode.values.typed_values import Converter, converter, opened_value

_HEX, _SURELY_HEX = re.compile("(?:[0-9a-f]{2})+"), 8


def converter_of(encoding: Encoding, type: T.DataType, sourced: bool = True) -> Converter:
    """The function that turns JSON values other than null into values of the column's type.

    It raises `Misfit` for a value that does not fit. Where the column's type is not the encoding's
    own, a value that fits is converted.

    Args:
        encoding: what the JSON values stand for.
        type: the column's type.
        sourced: whether the record has a source block. One without is not Debezium's own JSON, and
            its numbers are plain.
    """
    if isinstance(type, T.StringType):
        return _text(encoding)
    if isinstance(type, T.NumericType):
        return _number(encoding, type, sourced)
    if isinstance(type, T.DateType):
        return refuse if _is_no_moment(encoding) else _date(encoding)
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        if _is_no_moment(encoding):
            return refuse
        return _timestamp(encoding, zoned=isinstance(type, T.TimestampType))
    if isinstance(type, T.BinaryType):
        return _binary(encoding)
    if isinstance(type, T.ArrayType):
        return _array(encoding, type, sourced)
    return converter(type)


def refuse(value: object) -> object:
    """The converter of a column whose type the block's type cannot become: no value fits."""
    raise Misfit(value)


def _is_no_moment(encoding: Encoding) -> bool:
    """Whether values are times of day, or numbers that a schema block tells from ticks and days."""
    is_number = encoding.kind == "plain" and isinstance(encoding.type, T.NumericType)
    return is_number or encoding.kind == "time"


def _text(encoding: Encoding) -> Converter:
    if encoding.kind == "decimal":
        return partial(_decimal_text, encoding.scale)
    if encoding.kind == "variable":
        return lambda value: numbers.scaled_text(*numbers.variable_parts(value))
    if encoding.kind == "date":
        return lambda value: date_text(moments.date_value(value))
    if encoding.kind == "time":
        return lambda value: moments.time_text(value, encoding.unit)
    if encoding.kind == "timestamp" and isinstance(encoding.type, T.TimestampNTZType):
        return lambda value: timestamp_text(
            moments.timestamp_value(value, encoding.unit, zoned=False)
        )
    return _loose_text if encoding.kind == "loose" else _plain_text


def _plain_text(value: object) -> object:
    return value if type(value) is str else str(text_of(value))


def _loose_text(value: object) -> object:
    if type(value) is str:
        return value
    if numbers.is_variable(value):
        return numbers.scaled_text(*numbers.variable_parts(value))
    return str(text_of(value))


def _decimal_text(scale: int, value: object) -> str:
    """Base64; a plain number is Kafka Connect's `decimal.format` NUMERIC."""
    if _is_number(value):
        return text_of(value)
    return numbers.scaled_text(numbers.packed_integer(value), scale)


def _number(encoding: Encoding, type: T.NumericType, sourced: bool) -> Converter:
    plain, fit = _plain_number(type), _fitter(type)
    if encoding.kind == "decimal":
        return partial(_packed_number, plain, fit, encoding.scale)
    if encoding.kind == "variable":
        return lambda value: fit(*numbers.variable_parts(value))
    if encoding.kind in ("precise", "packed", "written", "unsure"):
        has_packed = sourced and encoding.scale >= 0 and encoding.kind != "written"
        scale = encoding.scale if has_packed else None
        precise = _precise_number(plain, fit, scale)
        return precise if scale is None else _REFUSALS[encoding.kind](precise)
    return plain


def _plain_number(type: T.NumericType) -> Converter:
    """The converter of plain numbers; a decimal's usual texts are read at once."""
    convert = converter(type)
    if not isinstance(type, T.DecimalType) or type.precision == type.scale:
        return convert
    places = rf"(?:\.[0-9]{{1,{type.scale}}})?" if type.scale else ""
    is_usual = re.compile(rf"-?[0-9]{{1,{type.precision - type.scale}}}{places}").fullmatch

    def usual(value: object) -> object:
        return Decimal(value) if isinstance(value, str) and is_usual(value) else convert(value)

    return usual


def _packed_number(
    plain: Converter, fit: Callable[[int, int], object], scale: int, value: object
) -> object:
    """Base64; a plain number is Kafka Connect's `decimal.format` NUMERIC."""
    if _is_number(value):
        return plain(value)
    return fit(numbers.packed_integer(value), scale)


def _precise_number(
    plain: Converter, fit: Callable[[int, int], object], scale: int | None
) -> Converter:
    """`scale` is that of base64; None where there is none."""

    def convert(value: object) -> object:
        if type(value) is str and scale is not None and numbers.is_base64(value):
            return fit(numbers.packed_integer(value), scale)
        if type(value) is dict:
            return fit(*numbers.variable_parts(value))
        return plain(value)

    return convert


def _always_packed(precise: Converter) -> Converter:
    """Refuses a text that is no base64 among texts that are."""

    def convert(value: object) -> object:
        if type(value) is str and not numbers.is_base64(value):
            raise Misfit(value)
        return precise(value)

    return convert


def _never_guessed(precise: Converter) -> Converter:
    """Refuses a text that can be one number in base64 and another one as it is written."""

    def convert(value: object) -> object:
        if type(value) is str and numbers.can_be_both(value):
            raise Misfit(value)
        return precise(value)

    return convert


def _as_is(precise: Converter) -> Converter:
    return precise


def _fitter(type: T.NumericType) -> Callable[[int, int], object]:
    """A function that gives a whole number with so many decimals as a value of the type."""
    plain = converter(type)

    def fit_text(integer: int, scale: int) -> object:
        return plain(NumberText(numbers.scaled_text(integer, scale)))

    if not isinstance(type, T.DecimalType):
        return fit_text
    places, before_point = type.scale, type.precision - type.scale
    limits = [10 ** (before_point + scale) for scale in range(places + 1)]
    to_decimal = [numbers.scaler(scale) for scale in range(places + 1)]

    def fit(integer: int, scale: int) -> object:
        if not 0 <= scale <= places:
            return fit_text(integer, scale)
        if abs(integer) >= limits[scale]:
            raise Misfit(integer)
        return to_decimal[scale](integer)

    return fit


def _is_number(value: object) -> bool:
    return type(value) is int or isinstance(value, NumberText)


def _date(encoding: Encoding) -> Converter:
    if encoding.kind == "timestamp":
        return lambda value: moments.date_of_timestamp(
            moments.timestamp_value(value, encoding.unit, zoned=False)
        )
    return moments.date_value


def _timestamp(encoding: Encoding, zoned: bool) -> Converter:
    if encoding.kind == "date":
        return lambda value: moments.timestamp_of_date(moments.date_value(value))
    unit = encoding.unit
    return lambda value: moments.timestamp_value(value, unit, zoned)


def _binary(encoding: Encoding) -> Converter:
    if encoding.kind == "hex":
        return _from_hex
    alternative = b"-_" if encoding.kind == "base64url" else None

    def convert(value: object) -> bytes:
        if type(value) is not str:
            raise Misfit(value)
        text = "".join(value.split())
        if encoding.kind == "octets" and can_be_hex(text):
            raise Misfit(value)
        try:
            padded = text + "=" * (-len(text) % 4)
            return base64.b64decode(padded, altchars=alternative, validate=True)
        except ValueError:
            raise Misfit(value) from None

    return convert


def can_be_hex(text: str) -> bool:
    """Whether text can be hex digits as Debezium writes them; hardly any base64 of so much can."""
    is_long = len(text) >= _SURELY_HEX or len(text) % 4 == 2
    return is_long and _HEX.fullmatch(text) is not None


def _from_hex(value: object) -> bytes:
    try:
        return bytes.fromhex(str(text_of(value)))
    except ValueError:
        raise Misfit(value) from None


def _array(encoding: Encoding, type: T.ArrayType, sourced: bool) -> Converter:
    items = encoding.items or Encoding("plain", type.elementType)
    convert_item = converter_of(items, type.elementType, sourced)

    def convert(value: object) -> list[object]:
        items = opened_value(value, list)
        return [None if item is None else convert_item(item) for item in items]

    return convert


_REFUSALS: dict[str, Callable[[Converter], Converter]] = {
    "precise": _as_is,
    "packed": _always_packed,
    "unsure": _never_guessed,
}
