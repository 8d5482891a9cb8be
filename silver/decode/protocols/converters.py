"""What converts the JSON values of flat rows, by where a column's type is from."""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyspark.sql import types as T

from silver.decode.columns import DecodedColumn
from silver.decode.types import Misfit, arrow_type, carrier_type
from silver.decode.values.bulk import (
    BulkConverter,
    bulk_converter,
    bulk_text,
    exact_doubles,
    without_empty_texts,
)
from silver.decode.values.converters import converter_of_type
from silver.decode.values.inference import fits_double
from silver.decode.values.json_values import NumberText
from silver.decode.values.numbers import Converter

_HEX = re.compile("(?:[0-9a-f]{16,}|[0-9A-F]{16,})")  # hardly any base64 of so much is hex digits


class ValueReader(NamedTuple):
    """Converts the values of a column: one by one, or all where `bulk` knows their form."""

    convert: Converter
    bulk: BulkConverter | None


MakeReader = Callable[[DecodedColumn, bool], ValueReader]
"""Makes the reader of a column's values; the second argument is `settled` as in `Columns`."""


def plain_reader(column: DecodedColumn, settled: bool) -> ValueReader:
    """What converts the JSON values of a column."""
    arrow = arrow_type(carrier_type(column.type))
    if column.provisional and not settled and isinstance(column.type, T.StringType):
        return ValueReader(_text_only, partial(bulk_text, arrow))
    convert, bulk = converter_of_type(column.type), bulk_converter(None, column.type, arrow)
    if isinstance(column.type, T.DoubleType) and not column.declared:
        return ValueReader(_exact_double(convert), exact_doubles)
    return ValueReader(convert, bulk)


def hexless_reader(column: DecodedColumn, settled: bool) -> ValueReader:
    """A reader that takes no hex digits for base64; bronze writes base64 of Parquet's bytes."""
    reader = plain_reader(column, settled)

    def checked(value: object) -> object:
        if isinstance(value, str) and _HEX.fullmatch(value):
            raise Misfit(value)
        return reader.convert(value)

    return ValueReader(checked, None) if isinstance(column.type, T.BinaryType) else reader


def of_csv(make: MakeReader) -> MakeReader:
    """Readers that read `""` as null where it is no value: writers that quote all write so."""

    def made(column: DecodedColumn, settled: bool) -> ValueReader:
        convert, bulk = make(column, settled)
        if isinstance(column.type, T.StringType | T.BinaryType):
            return ValueReader(convert, bulk)
        return ValueReader(
            lambda value: None if value == "" else convert(value),
            None if bulk is None else without_empty_texts(bulk),
        )

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
