"""Values of a whole column converted together, where all of them have the usual form.

A bulk converter takes the values of one column as they were parsed, nulls among them, and gives an
Arrow array, or None where some value is not of the form that it knows. What it gives is what the
converter of single values gives of each: that one has the law, and reads all columns with None.
"""

import binascii
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from silver.decode.types import Misfit
from silver.decode.values.encodings import Encoding, Kind
from silver.decode.values.json_values import NumberText
from silver.decode.values.numbers import Converter
from silver.decode.values.times import DAYS, MICROS, MILLIS_BELOW

Values = Sequence[Any]
BulkConverter = Callable[[Values], pa.Array | None]

REFUSALS = (pa.ArrowException, ValueError, TypeError, ArithmeticError)
"""What Arrow raises for a value that is none of its type."""

_NONE = type(None)
_WHOLE = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
_LOCAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_PACKED = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$"
_UTC, _LOCAL_TIME = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_BINARY = ("decimal", "precise", "packed")
"""Kinds of decimals in two's complement."""
_MICROS_FROM = 300_000_000_000_000
_MOST_OCTETS = 8
_FEW = 64
_DOUBLE_DIGITS, _DOUBLE_WHOLE = 17, 1 << 53


def convert_column(
    values: Values, convert: Converter, bulk: BulkConverter | None, type: pa.DataType
) -> tuple[pa.Array, list[int]]:
    """The values of a column in its Arrow type, and the places of those that do not fit."""
    if bulk is not None:
        try:
            array = bulk(values)
        except REFUSALS:
            array = None
        if array is not None:
            return array, []
    try:
        return pa.array(_convert_each(values, convert), type), []
    except REFUSALS:
        return _convert_one_by_one(values, convert, type)


def bulk_converter(
    encoding: Encoding | None, type: T.DataType, arrow: pa.DataType
) -> BulkConverter | None:
    """The bulk converter of values in an encoding, or plain ones, into a column's type.

    None where there is none: values are then converted one by one.
    """
    given = encoding or Encoding("plain", type)
    for of, kinds, bulk in _CONVERTERS:
        if isinstance(type, of) and given.kind in kinds:
            return partial(bulk, arrow)
    if isinstance(type, T.DecimalType) and given.scale == type.scale and given.kind in _BINARY:
        return partial(_packed_decimals, type, arrow, given.kind == "precise")
    if isinstance(type, T.DateType) and (encoding is None or given.kind == "date"):
        return partial(_convert_dates, encoding, arrow)
    is_timestamp = isinstance(type, T.TimestampType | T.TimestampNTZType)
    if is_timestamp and (encoding is None or given.kind == "timestamp"):
        return partial(_convert_timestamps, encoding, arrow)
    return None


def kinds_of(values: Values) -> set[type]:
    """The Python types of the values that are not null."""
    return set(map(type, values)) - {_NONE}


def _convert_each(values: Values, convert: Converter) -> list[object]:
    """The values one by one; of few different texts each once."""
    if kinds_of(values) == {str}:
        different = set(values)
        if len(different) <= _FEW:
            converted = {value: None if value is None else convert(value) for value in different}
            return list(map(converted.__getitem__, values))
    return [None if value is None else convert(value) for value in values]


def _convert_one_by_one(
    values: Values, convert: Converter, type: pa.DataType
) -> tuple[pa.Array, list[int]]:
    converted: list[object] = []
    misfits: list[int] = []
    for at, value in enumerate(values):
        try:
            one = None if value is None else convert(value)
            pa.array([one], type)
        except (Misfit, *REFUSALS):
            misfits.append(at)
            one = None
        converted.append(one)
    return pa.array(converted, type), misfits


def bulk_text(type: pa.DataType, values: Values) -> pa.Array | None:
    """Texts as they are."""
    return pa.array(values, type) if kinds_of(values) <= {str} else None


def _match_texts(values: Values, pattern: str) -> pa.Array | None:
    """Texts as an array; None where one does not match."""
    texts = pa.array(values, pa.string())
    matched = pc.all(pc.match_substring_regex(texts, pattern)).as_py()
    return None if matched is False else texts


def _convert_whole_numbers(type: pa.DataType, values: Values) -> pa.Array | None:
    kinds = kinds_of(values)
    if kinds <= {int}:
        return pa.array(values, type)
    texts = _match_texts(values, _WHOLE) if kinds == {str} else None
    return None if texts is None else pc.utf8_ltrim(texts, "+").cast(type)


def _convert_doubles(type: pa.DataType, values: Values) -> pa.Array | None:
    kinds = kinds_of(values)
    if kinds <= {float}:
        array = pa.array(values, type)
    elif kinds <= {float, int, NumberText}:
        array = pa.array([None if v is None else float(v) for v in values], type)
    elif kinds == {str}:
        texts = _match_texts(values, _NUMBER)
        array = None if texts is None else texts.cast(type)
    else:
        return None
    return None if array is None or pc.any(pc.is_inf(array)).as_py() else array


def exact_doubles(values: Values) -> pa.Array | None:
    """JSON numbers of which a double holds every digit."""
    if not kinds_of(values) <= {int, NumberText}:
        return None
    longest = max([len(value) for value in values if type(value) is NumberText], default=0)
    largest = max([abs(value) for value in values if type(value) is int], default=0)
    is_exact = longest <= _DOUBLE_DIGITS and largest <= _DOUBLE_WHOLE
    return _convert_doubles(pa.float64(), values) if is_exact else None


def without_empty_texts(bulk: BulkConverter) -> BulkConverter:
    """A converter that reads empty texts as null."""
    return lambda values: bulk([None if value == "" else value for value in values])


def _convert_booleans(type: pa.DataType, values: Values) -> pa.Array | None:
    return pa.array(values, type) if kinds_of(values) <= {bool} else None


def _convert_decimals(type: pa.DataType, values: Values) -> pa.Array | None:
    """Numbers as they are written, as texts or JSON numbers."""
    kinds = kinds_of(values)
    if int in kinds:
        values = [str(value) if type(value) is int else value for value in values]
    texts = _match_texts(values, _NUMBER) if kinds <= {str, NumberText, int} else None
    return None if texts is None else texts.cast(type)


def _packed_decimals(
    type: T.DecimalType, arrow: pa.DataType, or_written: bool, values: Values
) -> pa.Array | None:
    """Base64 or bytes of two's complement with the column's own scale."""
    kinds = kinds_of(values)
    if kinds <= {bytes}:
        return _convert_octets(values, type.precision, arrow)
    if kinds != {str}:
        return None
    if _match_texts(values, _PACKED) is not None:
        octets = [None if v is None else binascii.a2b_base64(v) for v in values]
        return _convert_octets(octets, type.precision, arrow)
    no_base64 = or_written and not any(v is not None and len(v) % 4 == 0 for v in values)
    return _convert_decimals(arrow, values) if no_base64 else None


def _convert_octets(
    octets: Sequence[bytes | None], precision: int, arrow: pa.DataType
) -> pa.Array | None:
    """Decimals from two's complement; None where some number is longer than 8 bytes or the type."""
    if b"" in octets or max(map(len, filter(None, octets)), default=0) > _MOST_OCTETS:
        return None
    read = partial(int.from_bytes, byteorder="big", signed=True)
    low = np.array([0 if one is None else read(one) for one in octets], np.int64)
    limit = 10**precision
    if limit < 1 << 63 and ((low >= limit) | (low <= -limit)).any():
        return None
    both = np.empty((len(low), 2), np.int64)
    both[:, 0], both[:, 1] = low, low >> 63
    valid = pa.array([one is not None for one in octets], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow, len(low), [valid, pa.py_buffer(both)])


def _convert_dates(encoding: Encoding | None, type: pa.DataType, values: Values) -> pa.Array | None:
    kinds = kinds_of(values)
    if encoding is not None and kinds <= {int}:
        numbers = pa.array(values, pa.int32())
        return numbers.cast(type) if _is_within(numbers, *DAYS) else None
    texts = _match_texts(values, _DATE) if kinds <= {str} else None
    if texts is None:
        return None
    days = texts.cast(type)
    return days if _is_within(days.cast(pa.int32()), *DAYS) else None


def _convert_timestamps(
    encoding: Encoding | None, type: pa.DataType, values: Values
) -> pa.Array | None:
    """Ticks of a unit, or texts in UTC; without an encoding texts alone."""
    kinds = kinds_of(values)
    if kinds <= {str}:
        texts = _match_texts(values, _MOMENT)
        if texts is not None:
            micros = texts.cast(_UTC)
        elif (texts := _match_texts(values, _LOCAL)) is not None:
            micros = texts.cast(_LOCAL_TIME)
        else:
            return None
        micros = micros.cast(pa.int64())
    elif kinds <= {int} and encoding is not None:
        micros = _ticks_to_micros(pa.array(values, pa.int64()), encoding.unit)
    else:
        return None
    return None if micros is None or not _is_within(micros, *MICROS) else micros.cast(type)


def _ticks_to_micros(ticks: pa.Array, unit: str) -> pa.Array | None:
    if unit == "guess":
        if _is_within(ticks, -MILLIS_BELOW, MILLIS_BELOW):
            unit = "ms"
        elif _is_within(ticks, _MICROS_FROM, MICROS[1]):
            unit = "us"
        else:
            return None
    if unit == "us":
        return ticks
    if unit == "ms":
        return pc.multiply_checked(ticks, 1_000)
    return pc.divide(ticks, 1_000) if _is_within(ticks, 0, 1 << 62) else None


def _is_within(numbers: pa.Array, first: int, last: int) -> bool:
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is None or (first <= ends["min"] and ends["max"] <= last)


_CONVERTERS: tuple[
    tuple[type[T.DataType], tuple[str, ...], Callable[[pa.DataType, Values], pa.Array | None]], ...
] = (
    (T.StringType, ("plain", "loose", "json", "base64"), bulk_text),
    (T.IntegralType, ("plain", "precise"), _convert_whole_numbers),
    (T.DoubleType, ("plain", "precise"), _convert_doubles),
    (T.DecimalType, ("plain", "written"), _convert_decimals),
    (T.BooleanType, tuple(get_args(Kind)), _convert_booleans),
)
