"""What converts the JSON values of flat rows, by where a column's type is from."""

import re
from collections.abc import Callable

from pyspark.sql import types as T

from silver.decode.columns import DecodedColumn
from silver.decode.types import Misfit
from silver.decode.values.converters import converter_of_type
from silver.decode.values.inference import fits_double
from silver.decode.values.json_values import NumberText
from silver.decode.values.numbers import Converter

_HEX = re.compile("(?:[0-9a-f]{16,}|[0-9A-F]{16,})")  # hardly any base64 of so much is hex digits


def plain_converter(column: DecodedColumn, settled: bool) -> Converter:
    """What converts the JSON values of a column; `settled` as in `Columns`."""
    if column.provisional and not settled and isinstance(column.type, T.StringType):
        return _text_only
    made = converter_of_type(column.type)
    learned = isinstance(column.type, T.DoubleType) and not column.declared
    return _exact_double(made) if learned else made


def hexless_converter(column: DecodedColumn, settled: bool) -> Converter:
    """A converter that takes no hex digits for base64; bronze writes base64 of Parquet's bytes."""
    convert = plain_converter(column, settled)

    def checked(value: object) -> object:
        if isinstance(value, str) and _HEX.fullmatch(value):
            raise Misfit(value)
        return convert(value)

    return checked if isinstance(column.type, T.BinaryType) else convert


def of_csv(
    make: Callable[[DecodedColumn, bool], Converter],
) -> Callable[[DecodedColumn, bool], Converter]:
    """Converters that read `""` as null where it is no value: writers that quote all write so."""

    def made(column: DecodedColumn, settled: bool) -> Converter:
        convert = make(column, settled)
        is_value = isinstance(column.type, T.StringType | T.BinaryType)
        return convert if is_value else lambda value: None if value == "" else convert(value)

    return made


def _exact_double(convert: Converter) -> Converter:
    """For a column that nobody declared to be double: no digits of its numbers are lost."""

    def exact(value: object) -> object:
        if isinstance(value, int | NumberText) and not fits_double(value):
            raise Misfit(value)
        return convert(value)

    return exact


def _text_only(value: object) -> str:
    """Text for a column whose type may turn out to be another one when all values are seen."""
    if not isinstance(value, str) or isinstance(value, NumberText):
        raise Misfit(value)
    return value
