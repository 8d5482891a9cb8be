"""Numbers: as people write them, and exactly from Debezium's encodings.

`numeric(p,s)` comes as base64 of a big-endian two's complement integer whose scale is given
elsewhere, `numeric` without a scale as `{"scale":n,"value":base64}`.
"""

import base64
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial

from pyspark.sql import types as T

from silver.decode.types import BLANKS, Misfit
from silver.decode.values.encodings import Encoding, Kind
from silver.decode.values.json_values import NumberText, text_of

Converter = Callable[[object], object]
"""Takes a JSON value that is not null, gives what pyarrow takes for the column's Arrow type.

Timestamps are microseconds and dates days since 1970, maps lists of pairs, structs dictionaries.
"""

LONGEST = 1024
_WIDEST_SCALE = 16384
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_WRITTEN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?Infinity")
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_SPECIAL_NUMBER = re.compile(
    r"nan|[+-]?inf(?:inity)?|(?:positive|negative)_infinity", re.IGNORECASE
)
_SIGN_OF = {"positive_": "+", "negative_": "-"}
_SIGNS = re.compile("|".join(_SIGN_OF), re.IGNORECASE)
_ONE = Decimal(1)
_TO_WHOLE = Context(prec=40, traps=[Inexact, InvalidOperation])
MIXED: frozenset[Kind] = frozenset(("precise", "packed", "written", "unsure"))
"""Kinds of numbers that may be plain JSON numbers, packed, or of variable scale."""
_EXACT = Context(prec=_WIDEST_SCALE + 4 * LONGEST)


def packed_integer(value: object) -> int:
    """The whole number in base64.

    Raises:
        Misfit: the value is no base64, empty, or over 1 kB.
    """
    if not isinstance(value, str):
        raise Misfit(value)
    try:
        octets = base64.b64decode(value, validate=True)
    except ValueError:
        raise Misfit(value) from None
    if not 0 < len(octets) <= LONGEST:
        raise Misfit(value)
    return int.from_bytes(octets, "big", signed=True)


def make_scaler(scale: int) -> Callable[[int], Decimal]:
    """A function that gives a whole number so many decimals, exactly."""
    return partial(_EXACT.multiply, Decimal((0, (1,), -scale)))


def scaled_text(integer: int, scale: int) -> str:
    """The number with so many decimals as people write it: 123.45."""
    if scale <= 0:
        return str(integer) + "0" * -scale
    digits = str(abs(integer)).rjust(scale + 1, "0")
    return f"{'-' if integer < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def is_variable(value: object) -> bool:
    """Whether a value is a number of variable scale as Debezium writes it."""
    return isinstance(value, dict) and value.keys() == {"scale", "value"}


def variable_parts(value: object) -> tuple[int, int]:
    """The whole number and the scale of a number of variable scale.

    Raises:
        Misfit: the value is none.
    """
    if not isinstance(value, dict):
        raise Misfit(value)
    scale, packed = value.get("scale"), value.get("value")
    if type(scale) is not int or abs(scale) > _WIDEST_SCALE:
        raise Misfit(value)
    return packed_integer(packed), scale


def is_base64(text: str) -> bool:
    """Whether text can be base64 of a number; `1.5`, `-5` and `NaN` cannot."""
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


def is_written(text: str) -> bool:
    """Whether text can be a number as people write it: `12`, `-0.5`, `1E+3`."""
    return _WRITTEN.fullmatch(text) is not None


def form_of(text: str) -> str | None:
    """How a decimal's text is written: `base64` or `plain`; None for both or neither."""
    packed, written = is_base64(text), is_written(text)
    if packed == written:
        return None
    return "base64" if packed else "plain"


def is_special(text: str) -> bool:
    """Whether a text says NaN or an infinity, as databases and Debezium write them."""
    return _SPECIAL_NUMBER.fullmatch(text) is not None


def is_number(value: object) -> bool:
    """Whether a JSON value is a number."""
    return type(value) is int or isinstance(value, NumberText)


def number_converter(encoding: Encoding | None, type: T.DataType) -> Converter:
    """The converter of JSON values into a type of numbers; see `converters.converter_of`."""
    plain = next(make(type) for kind, make in _NUMBERS if isinstance(type, kind))
    if encoding is None:
        return plain
    kind, scale, fit = encoding.kind, encoding.scale, _make_fitter(type, plain)
    if kind == "variable":
        return lambda value: fit(*variable_parts(value))
    if kind == "decimal":  # base64; a plain number is Kafka Connect's `decimal.format` NUMERIC
        return lambda value: plain(value) if is_number(value) else fit(packed_integer(value), scale)
    if kind not in MIXED:
        return plain
    return _mixed_converter(kind if scale >= 0 else "written", scale, plain, fit)


def _mixed_converter(
    kind: Kind, scale: int, plain: Converter, fit: Callable[[int, int], object]
) -> Converter:
    """Numbers that are plain or of variable scale; see `Encoding` for what a text is."""

    def convert(value: object) -> object:
        if type(value) is dict:
            return fit(*variable_parts(value))
        if type(value) is not str or kind == "written":
            return plain(value)
        is_packed = is_base64(value)
        if not is_packed and kind != "packed":
            return plain(value)
        if not is_packed or (kind == "unsure" and is_written(value)):
            raise Misfit(value)
        return fit(packed_integer(value), scale)

    return convert


def _make_fitter(type: T.DataType, plain: Converter) -> Callable[[int, int], object]:
    """A function that gives a whole number with so many decimals as a value of the type."""

    def fit_text(integer: int, scale: int) -> object:
        return plain(NumberText(scaled_text(integer, scale)))

    if not isinstance(type, T.DecimalType):
        return fit_text
    places, before_point = type.scale, type.precision - type.scale
    limits = [10 ** (before_point + scale) for scale in range(places + 1)]
    to_decimal = [make_scaler(scale) for scale in range(places + 1)]

    def fit(integer: int, scale: int) -> object:
        if not 0 <= scale <= places:
            return fit_text(integer, scale)
        if abs(integer) >= limits[scale]:
            raise Misfit(integer)
        return to_decimal[scale](integer)

    return fit


def _whole_converter(data_type: T.DataType) -> Converter:
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
    return int(_rescale(_parse_number(text), _ONE, _TO_WHOLE))


def _decimal_converter(data_type: T.DataType) -> Converter:
    assert isinstance(data_type, T.DecimalType)
    unit = _ONE.scaleb(-data_type.scale)
    context = Context(prec=data_type.precision, traps=[Inexact, InvalidOperation])
    places = rf"(?:\.[0-9]{{1,{data_type.scale}}})?" if data_type.scale else ""
    most = max(1, data_type.precision - data_type.scale)
    is_usual = re.compile(rf"-?[0-9]{{1,{most}}}{places}").fullmatch
    reads_usual = data_type.precision > data_type.scale

    def convert(value: object) -> Decimal:
        if reads_usual and isinstance(value, str) and is_usual(value):
            return Decimal(value)
        if type(value) is int:
            return _rescale(Decimal(value), unit, context)
        return _rescale(_parse_number(text_of(value).strip(BLANKS)), unit, context)

    return convert


def _parse_number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise Misfit(text)
    return Decimal(text)


def _rescale(number: Decimal, unit: Decimal, context: Context) -> Decimal:
    """The number with the digits behind the point that `unit` has, if none is lost."""
    try:
        return number.quantize(unit, context=context)
    except (Inexact, InvalidOperation):
        raise Misfit(number) from None


def _floating_converter(data_type: T.DataType) -> Converter:
    single = isinstance(data_type, T.FloatType)

    def convert(value: object) -> float:
        if isinstance(value, NumberText):
            number = float(value)
        else:
            text = text_of(value).strip(BLANKS)
            if is_special(text):
                return float(_SIGNS.sub(lambda sign: _SIGN_OF[sign[0].lower()], text))
            number = float(text) if _NUMBER.fullmatch(text) else math.inf
        if math.isinf(number):
            raise Misfit(value)
        if single:
            try:
                struct.pack("<f", number)
            except OverflowError:
                raise Misfit(value) from None
        return number

    return convert


def round_to_single(convert: Converter) -> Converter:
    """For floats in a column that has grown to double: they are as those that were stored before.

    The JSON number 0.1 is 0.10000000149011612 as a float, whenever its column became a double.
    """

    def rounded(value: object) -> object:
        try:
            return struct.unpack("<f", struct.pack("<f", convert(value)))[0]
        except OverflowError:
            raise Misfit(value) from None

    return rounded


_NUMBERS: tuple[tuple[type[T.DataType], Callable[[T.DataType], Converter]], ...] = (
    (T.IntegralType, _whole_converter),
    (T.DecimalType, _decimal_converter),
    (T.FractionalType, _floating_converter),
)
