"""Values by encoding: SQL built without Spark, evaluated on it."""

import base64
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.debezium_encoding import Encoding, Kind, from_block
from silver.debezium_moments import Unit
from silver.debezium_values import converted

WHOLE_NUMBERS = [
    *(0, 1, -1, 127, 128, -128, -129, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64),
    *(10**38 - 1, -(10**38), 10**40, -(10**60), 10**300 + 7),
]


def values(spark: SparkSession, of: Encoding, type: T.DataType, *tokens: str | None) -> list[Any]:
    rows = spark.createDataFrame([(at, t) for at, t in enumerate(tokens)], "at int, token string")
    read = F.expr(converted("token", of, type)).alias("value")
    shown = rows.withColumn("_sourced", F.lit(True)).select("at", read.cast("string"))
    return [row["value"] for row in shown.orderBy("at").collect()]


def packed(number: int) -> str:
    octets = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return base64.b64encode(octets).decode()


def test_numbers_of_any_length_are_exact(spark: SparkSession) -> None:
    of = Encoding("decimal", "string", 0)

    found = values(spark, of, T.StringType(), *map(packed, WHOLE_NUMBERS))

    assert found == [str(number) for number in WHOLE_NUMBERS]


def test_the_point_goes_where_the_scale_says(spark: SparkSession) -> None:
    of = Encoding("decimal", "decimal(38,20)", 20)
    numbers = [314159265358979323846, -5, 0]

    text = values(spark, of, T.StringType(), *map(packed, numbers))
    decimals = values(spark, of, T.DecimalType(38, 20), *map(packed, numbers))

    assert text == ["3.14159265358979323846", "-0.00000000000000000005", "0." + "0" * 20]
    assert [Decimal(d) for d in decimals] == [Decimal(t) for t in text]


def test_a_number_that_would_be_rounded_or_cut_does_not_fit(spark: SparkSession) -> None:
    of = Encoding("decimal", "decimal(14,4)", 4)

    found = values(spark, of, T.DecimalType(6, 2), packed(100300), packed(100301), packed(10**12))

    assert found == ["10.03", None, None]


@pytest.mark.parametrize("kind", ["plain", "precise", "variable"])
def test_nor_does_one_that_is_written_with_more_digits(spark: SparkSession, kind: str) -> None:
    of, type = Encoding(kind, "decimal(10,2)", 2 if kind == "precise" else 0), T.DecimalType(10, 2)
    packed_up = '{"scale":3,"value":"%s"}'
    tokens = ["1.005", "1.5000", "-12345678.90", "123456789.12", "0.1234567890123456789"]
    if kind == "variable":
        tokens = [packed_up % packed(number) for number in (1005, 1500, -12345678900, 123456789120)]

    found = values(spark, of, type, *tokens)

    assert found == [None, "1.50", "-12345678.90", None, None][: len(tokens)]


def test_variable_scale(spark: SparkSession) -> None:
    of = Encoding("variable", "string")
    tokens = ['{"scale":1,"value":"Dw=="}', '{"scale":-2,"value":"Aw=="}', "7", None]

    assert values(spark, of, T.StringType(), *tokens) == ["1.5", "300", None, None]


@pytest.mark.parametrize(
    ("unit", "token", "expected"),
    [
        ("us", "1709212455123456", "2024-02-29 13:14:15.123456"),
        ("ms", "1709212455123", "2024-02-29 13:14:15.123"),
        ("ns", "1709212455123456789", "2024-02-29 13:14:15.123456"),
        ("ns", "-1", "1969-12-31 23:59:59.999999"),
        ("guess", "1709212455123456", "2024-02-29 13:14:15.123456"),
        ("guess", "1709212455123", "2024-02-29 13:14:15.123"),
        ("guess", "253402300799999", "9999-12-31 23:59:59.999"),
        ("us", "9223372036825200000", "9999-12-31 23:59:59.999999"),
        ("ms", "9223372036825200", "9999-12-31 23:59:59.999999"),
        ("us", "-9223372036832400000", "0001-01-01 00:00:00"),
        ("us", "-99999999999999999", None),
        ("us", "2024-02-29T13:14:15.123456Z", "2024-02-29 13:14:15.123456"),
        ("us", "infinity", "9999-12-31 23:59:59.999999"),
        ("us", "now", None),
        ("us", "12345678901234567890123", None),
    ],
)
def test_timestamps(spark: SparkSession, unit: Unit, token: str, expected: str | None) -> None:
    of = Encoding("timestamp", "timestamp_ntz", unit=unit)

    assert values(spark, of, T.TimestampNTZType(), token) == [expected]


def test_dates(spark: SparkSession) -> None:
    tokens = ["19782", "-719162", "2024-02-29Z", "-2147472693", "99999999", "-800000", "x"]
    tokens.append("1704067200000")

    found = values(spark, Encoding("date", "date"), T.DateType(), *tokens)

    days = ["2024-02-29", "0001-01-01", "2024-02-29", "9999-12-31", "9999-12-31", *[None] * 3]
    assert found == days


def test_times_of_day_include_their_end(spark: SparkSession) -> None:
    of = Encoding("time", "string", unit="us")
    tokens = ["0", "47655123456", "47655120000", "86400000000", "86400000001", "09:59:59.9Z"]

    found = values(spark, of, T.StringType(), *tokens)

    clock = ["00:00:00", "13:14:15.123456", "13:14:15.12", "24:00:00", None, "09:59:59.9"]
    assert found == clock


def test_an_array_is_read_element_by_element_or_not_at_all(spark: SparkSession) -> None:
    of = from_block({"type": "array", "items": {"type": "int32"}})

    found = values(spark, of, T.ArrayType(T.IntegerType()), "[1,null,3]", "[]", '["x"]', "7")

    assert found == ["[1, null, 3]", "[]", None, None]


def test_an_array_of_numbers_in_base64(spark: SparkSession) -> None:
    decimal = {"name": "org.apache.kafka.connect.data.Decimal", "type": "bytes"}
    of = from_block({"type": "array", "items": decimal | {"parameters": {"scale": "1"}}})

    found = values(spark, of, T.ArrayType(T.DecimalType(5, 1)), f'["{packed(15)}",null]')

    assert found == ["[1.5, null]"]


@pytest.mark.parametrize(
    ("kind", "token"), [("base64", "+/8="), ("base64url", "-_8="), ("hex", "fbff")]
)
def test_bytes_by_handling_mode(spark: SparkSession, kind: Kind, token: str) -> None:
    read = T.BinaryType()
    rows = spark.createDataFrame([(token,)], "token string")

    row = rows.select(F.expr(converted("token", Encoding(kind, "binary"), read)).alias("v")).first()

    assert row is not None
    assert bytes(row["v"]) == b"\xfb\xff"
