import re
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from silver.decode.types import Misfit
from silver.decode.values.converters import converter_of_type, misfit_message
from silver.decode.values.json_values import parse_json
from silver.decode.values.times import timestamp_of

BIGINT, INT, TINYINT = T.LongType(), T.IntegerType(), T.ByteType()
DOUBLE, FLOAT, BOOLEAN, STRING = T.DoubleType(), T.FloatType(), T.BooleanType(), T.StringType()
DATE, TIMESTAMP, NTZ, BINARY = T.DateType(), T.TimestampType(), T.TimestampNTZType(), T.BinaryType()
PRICE = T.DecimalType(9, 2)
POINT = T.StructType([T.StructField("x", INT), T.StructField("y", PRICE)])
PRICES = T.MapType(STRING, PRICE)
NESTED = T.ArrayType(
    T.StructType([T.StructField("at", DATE), T.StructField("n", T.ArrayType(INT))])
)


def days(year: int, month: int, day: int) -> int:
    return (date(year, month, day) - date(1970, 1, 1)).days


def micros(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1_000_000)


FITS: Sequence[tuple[T.DataType, str, Any]] = [
    (INT, "12", 12),
    (INT, '"12"', 12),
    (INT, '" +12\\t"', 12),
    (INT, "1.0", 1),
    (INT, '"1.0"', 1),
    (INT, "1e3", 1000),
    (INT, "2147483647", 2**31 - 1),
    (INT, "-2147483648", -(2**31)),
    (TINYINT, "127", 127),
    (BIGINT, "9223372036854775807", 2**63 - 1),
    (BIGINT, '"-9223372036854775808"', -(2**63)),
    (BIGINT, "9007199254740993.0", 9007199254740993),
    (BIGINT, "0e99999", 0),
    (PRICE, "1", Decimal("1.00")),
    (PRICE, "1.5", Decimal("1.50")),
    (PRICE, "1.500", Decimal("1.50")),
    (PRICE, '".5"', Decimal("0.50")),
    (PRICE, '" 5. "', Decimal("5.00")),
    (PRICE, "12345e-2", Decimal("123.45")),
    (PRICE, "9999999.99", Decimal("9999999.99")),
    (T.DecimalType(20, 0), "18446744073709551615", Decimal(2**64 - 1)),
    (T.DecimalType(22, 9), '"1234567890123.123456789"', Decimal("1234567890123.123456789")),
    (T.DecimalType(22, 9), "1234567890123.123456789", Decimal("1234567890123.123456789")),
    (T.DecimalType(38, 0), "9" * 38, Decimal("9" * 38)),
    (T.DecimalType(38, 38), "0." + "9" * 38, Decimal("0." + "9" * 38)),
    (DOUBLE, "0.1", 0.1),
    (DOUBLE, "2", 2.0),
    (DOUBLE, "9007199254740993", 9007199254740992.0),
    (DOUBLE, '"-1e-3"', -0.001),
    (DOUBLE, '"-Infinity"', float("-inf")),
    (DOUBLE, '"inf"', float("inf")),
    (FLOAT, "0.5", 0.5),
    (BOOLEAN, "true", True),
    (BOOLEAN, '"FALSE"', False),
    (BOOLEAN, '" y "', True),
    (BOOLEAN, "1", True),
    (BOOLEAN, '"no"', False),
    (STRING, '"12"', "12"),
    (STRING, "12", "12"),
    (STRING, "1.50", "1.50"),
    (STRING, "true", "true"),
    (STRING, '{"b": 1.50, "a": [true, null, "x"]}', '{"b":1.50,"a":[true,null,"x"]}'),
    (T.VarcharType(3), '"long"', "long"),
    (DATE, '"2024-02-29"', days(2024, 2, 29)),
    (DATE, '" 2024-2-9 "', days(2024, 2, 9)),
    *((DATE, f'"2024-02-29{rest}"', days(2024, 2, 29)) for rest in ("T00:00:00Z", " 00:00:00 ")),
    *((DATE, f'"2024-02-29{rest}"', days(2024, 2, 29)) for rest in (" 0", "T00:00", " 00:00:00.")),
    (DATE, '"2024-02-29T00:00:00.000000000+00:00"', days(2024, 2, 29)),
    (DATE, '"2024-02-29 00:00:00 UTC"', days(2024, 2, 29)),
    (DATE, '"1969-12-31"', -1),
    (TIMESTAMP, '"2024-01-01"', micros("2024-01-01T00:00:00")),
    (TIMESTAMP, '"2022-12-12T00:00:00.000000Z"', micros("2022-12-12T00:00:00")),
    (TIMESTAMP, '"2024-01-01 10"', micros("2024-01-01T10:00:00")),
    (TIMESTAMP, '"2024-1-1T1:2"', micros("2024-01-01T01:02:00")),
    (TIMESTAMP, '"2024-01-01 10:11:12.3"', micros("2024-01-01T10:11:12.300000")),
    (TIMESTAMP, '"2024-01-01 10:11:12.123456789"', micros("2024-01-01T10:11:12.123456")),
    (TIMESTAMP, '"1969-12-31T23:59:59.999999Z"', -1),
    (TIMESTAMP, '"2024-01-01 10:11:12 Z"', micros("2024-01-01T10:11:12")),
    (TIMESTAMP, '"2024-01-01T10:00:00+02:00"', micros("2024-01-01T08:00:00")),
    (TIMESTAMP, '"2024-01-01T10:00:00-0230"', micros("2024-01-01T12:30:00")),
    (TIMESTAMP, '"2024-01-01T10:00Z"', micros("2024-01-01T10:00:00")),
    (TIMESTAMP, '"2024-01-01T10:00:00+01:00:01"', micros("2024-01-01T08:59:59")),
    (TIMESTAMP, '"2024-01-01T10:00:00+010001"', micros("2024-01-01T08:59:59")),
    (TIMESTAMP, '"2024-01-01T10:00:00+1"', micros("2024-01-01T09:00:00")),
    (TIMESTAMP, '"2024-01-01T10:00:00UTC+1:30"', micros("2024-01-01T08:30:00")),
    (TIMESTAMP, '"2024-01-01T10:00:00.5 Europe/Paris"', micros("2024-01-01T09:00:00.500000")),
    (TIMESTAMP, '"2024-07-01T10:00:00 Europe/Paris"', micros("2024-07-01T08:00:00")),
    (NTZ, '"2024-01-01T10:00:00"', micros("2024-01-01T10:00:00")),
    (NTZ, '"2024-01-01T10:00:00+02:00"', micros("2024-01-01T10:00:00")),
    (BINARY, '"AAH/"', b"\x00\x01\xff"),
    (BINARY, '"AAE="', b"\x00\x01"),
    (BINARY, '"AA E"', b"\x00\x01"),
    (BINARY, '""', b""),
    (T.ArrayType(INT), "[1, null, 2.0]", [1, None, 2]),
    (T.ArrayType(INT), '"[1, 2]"', [1, 2]),
    (T.ArrayType(PRICE), "[0.10]", [Decimal("0.10")]),
    (POINT, '{"x": 1, "y": "2.50", "z": true}', {"x": 1, "y": Decimal("2.50")}),
    (POINT, '"{\\"x\\": null}"', {"x": None, "y": None}),
    (PRICES, '{"a": 1.5, "b": null}', [("a", Decimal("1.50")), ("b", None)]),
    (T.MapType(INT, STRING), '{"1": "a"}', [(1, "a")]),
    (NESTED, '[{"at": "1970-01-02", "n": [1]}, null]', [{"at": 1, "n": [1]}, None]),
    (T.VariantType(), '{"a": [1.50]}', '{"a":[1.50]}'),
    (T.VariantType(), '"{\\"a\\": 1}"', '{"a":1}'),
    (T.VariantType(), "1", "1"),
    (T.ArrayType(T.VariantType()), '[{"a": 1.50}, null]', '[{"a":1.50},null]'),
    (
        T.StructType().add("n", INT).add("at", TIMESTAMP).add("p", PRICE).add("v", T.VariantType()),
        '{"n": "12", "at": "2024-01-01 10:00", "p": "1.5", "v": "{\\"a\\": 1.50}", "more": 1}',
        '{"n":12,"at":"2024-01-01T10:00:00.000Z","p":1.50,"v":{"a":1.50}}',
    ),
    (T.MapType(STRING, T.VariantType()), '"{\\"a\\": [1]}"', '{"a":[1]}'),
]
MISFITS: Sequence[tuple[T.DataType, str]] = [
    *((INT, text) for text in ('""', '"x"', "1.5", "2147483648", "-2147483649", "true", "[1]")),
    *((INT, text) for text in ('{"a": 1}', '"1_000"', '"\u0661"', '"0x1"', "1e999999999", '"NaN"')),
    (TINYINT, "128"),
    (BIGINT, "9223372036854775808"),
    *((PRICE, text) for text in ("1.005", "10000000", "1e7", '"1,5"', '"x"', "true", '"NaN"')),
    *((PRICE, text) for text in ("0." + "0" * 40 + "1", "1e-999999999", '{"a": 1}', '""', '"."')),
    *((DOUBLE, text) for text in ("1e400", '"1.5f"', '"x"', "true", '"+NaN"', "9" * 400)),
    (FLOAT, "3.5e38"),
    *((BOOLEAN, text) for text in ('"maybe"', "2", '""', "[]", "1.0")),
    *((DATE, text) for text in ('"2024-02-30"', '"2024-02"', '"2024"', '"24-01-01"', "20240101")),
    *((DATE, text) for text in ('"2024-01-01Tx"', '"2024-01-01 25:00:00"', '"99999999-01-01"')),
    *((DATE, f'"2024-01-01{rest}"') for rest in (" 10:30:00", "T23:30:00-05:00", "T00:00:01Z")),
    *((DATE, f'"2024-01-01T00:00:00{rest}"') for rest in (".0000001", "+01:00", " Europe/Paris")),
    *((DATE, text) for text in ('"9999999-01-01"', '"20240101"', '"10:00:00"', '"2024-13-01"')),
    *((TIMESTAMP, text) for text in ("1704067200", '"now"', '"10:00:00"', '"2024-01"', '""')),
    *((TIMESTAMP, f'"2024-01-01{rest}"') for rest in ("T24:00:00", "T10:60", "T", "TT10", "x")),
    *(
        (TIMESTAMP, f'"2024-01-01T10:00:00{rest}"')
        for rest in ("+19:00", "Mars/X", "+1:2:3", "1", "z")
    ),
    *((NTZ, f'"2024-01-01T10:00:00{rest}"') for rest in ("+19:00", "+", "Mars/X")),
    *((TIMESTAMP, f'"2024-01-01T10:00{rest}"') for rest in (":", ":0 ../x", ":00 +01:60")),
    *((DATE, text) for text in ('"12024-01-01"', '"0000-01-01"', '"-0044-03-15"')),
    *((TIMESTAMP, text) for text in ('"1000000-01-01"', '"10000-01-01T00:00:00Z"')),
    (TIMESTAMP, '"9999-12-31T23:59:59-01:00"'),
    (TIMESTAMP, '"0001-01-01T00:00:00+01:00"'),
    *((BINARY, text) for text in ('"A"', '"AAAA="', '"A==="', '"AA*="', '"AAH_"', "{}")),
    *((T.ArrayType(INT), text) for text in ('[1, "x"]', '"1"', "1", "{}", '"[1"', '""')),
    *((POINT, text) for text in ('{"x": "a"}', '{"y": 1.005}', "[]", '"x"', "1")),
    *((PRICES, text) for text in ('{"a": "x"}', "[]", '"{"')),
    (T.MapType(INT, STRING), '{"1": "a", "01": "b"}'),
    (T.MapType(INT, STRING), '{"x": "a"}'),
    (NESTED, '[{"at": "1970-01-02", "n": ["x"]}]'),
    (T.VariantType(), '"text"'),
    (T.ArrayType(T.VariantType()), '["text"]'),
]


@pytest.mark.parametrize(("data_type", "text", "value"), FITS)
def test_a_value_that_fits_its_type_is_exactly_that_value(
    data_type: T.DataType, text: str, value: Any
) -> None:
    found = converter_of_type(data_type)(parse_json(text))
    assert found == value
    assert isinstance(found, type(value))
    assert isinstance(found, bool) is isinstance(value, bool)


@pytest.mark.parametrize(("data_type", "text"), MISFITS)
def test_a_value_that_the_type_cannot_hold_as_it_is_is_a_misfit(
    data_type: T.DataType, text: str
) -> None:
    with pytest.raises(Misfit):
        converter_of_type(data_type)(parse_json(text))


ARROW: Sequence[tuple[T.DataType, pa.DataType, str, Any]] = [
    (INT, pa.int32(), "1.0", 1),
    (PRICE, pa.decimal128(9, 2), "1e2", Decimal("100.00")),
    (FLOAT, pa.float32(), "0.5", 0.5),
    (DATE, pa.date32(), '"2024-02-29"', date(2024, 2, 29)),
    (NTZ, pa.timestamp("us"), '"2024-02-29"', datetime.fromisoformat("2024-02-29")),
    (PRICES, pa.map_(pa.string(), pa.decimal128(9, 2)), '{"a": 1}', [("a", Decimal("1.00"))]),
    (T.ArrayType(DATE), pa.list_(pa.date32()), '["1970-01-02", null]', [date(1970, 1, 2), None]),
]


@pytest.mark.parametrize(("data_type", "arrow", "text", "value"), ARROW)
def test_arrow_takes_the_values_for_the_columns_type(
    data_type: T.DataType, arrow: pa.DataType, text: str, value: Any
) -> None:
    found = converter_of_type(data_type)(parse_json(text))
    assert pa.array([found, None], arrow).to_pylist() == [value, None]


DECIMALS = st.decimals(-(10**40), 10**40, allow_nan=False)


@given(DECIMALS, st.integers(1, 38), st.integers(0, 38))
def test_a_decimal_is_the_number_or_a_misfit(number: Decimal, precision: int, scale: int) -> None:
    data_type = T.DecimalType(max(precision, scale), scale)
    try:
        found = converter_of_type(data_type)(str(number))
    except Misfit:
        found = None
    scaled = Fraction(number) * 10**scale
    fits = scaled.denominator == 1 and abs(scaled) < 10**data_type.precision
    assert (found == number) is fits


@given(st.datetimes(), st.integers(-18 * 60, 18 * 60))
def test_every_timestamp_that_python_writes_is_read_exactly(moment: datetime, ahead: int) -> None:
    sign, (hours, minutes) = "-" if ahead < 0 else "+", divmod(abs(ahead), 60)
    since_1970 = moment.replace(tzinfo=timezone.utc) - datetime.fromtimestamp(0, timezone.utc)
    seconds = since_1970.days * 86_400 + since_1970.seconds - ahead * 60
    text = f"{moment.isoformat()}{sign}{hours:02}:{minutes:02}"
    assert timestamp_of(text) == seconds * 1_000_000 + since_1970.microseconds


@given(st.text(alphabet="0123456789-+:. TZeE\x00é", max_size=30))
def test_no_text_raises_anything_but_a_misfit(text: str) -> None:
    for data_type in (INT, PRICE, DOUBLE, FLOAT, BOOLEAN, DATE, TIMESTAMP, NTZ, BINARY, NESTED):
        try:
            converter_of_type(data_type)(text)
        except Misfit:
            continue


def test_a_message_says_what_was_found_and_what_was_expected() -> None:
    assert misfit_message("qty", "many", INT) == "column qty: found 'many', expected int"
    found = misfit_message("price", parse_json("1.005"), PRICE)
    assert found == "column price: found '1.005', expected decimal(9,2)"
    hidden = misfit_message("age", "secret", INT, hidden=True)
    assert hidden == "column age: found a value that is not shown, expected int"
    assert len(misfit_message("t", "x" * 500, INT)) < 120


def test_a_type_that_no_column_has_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("found interval day to second")):
        converter_of_type(T.DayTimeIntervalType())
