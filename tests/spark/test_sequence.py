from collections.abc import Iterable
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.decode.expressions.sequence_columns import canonical, from_column, join, section


def values(spark: SparkSession, rows: Iterable[object], type: str, result: Column) -> list[object]:
    frame = spark.createDataFrame([(row,) for row in rows], f"value {type}")
    return [row[0] for row in frame.select(result).collect()]


def test_whole_numbers_become_sixteen_upper_case_hex_digits(spark: SparkSession) -> None:
    found = values(spark, [0, 255, 2**63 - 1], "bigint", section(F.col("value")))
    assert found == ["0" * 16, "00000000000000FF", "7FFFFFFFFFFFFFFF"]


def test_numbers_beyond_bigint_are_unsigned_up_to_two_to_the_64(spark: SparkSession) -> None:
    rows = [Decimal(2**63), Decimal(2**64 - 1), Decimal(2**64), Decimal(7)]
    found = values(spark, rows, "decimal(38,0)", section(F.col("value")))
    assert found == ["8000000000000000", "FFFFFFFFFFFFFFFF", None, "0000000000000007"]


def test_null_and_negative_numbers_have_no_section(spark: SparkSession) -> None:
    assert values(spark, [None, -1, -(2**63)], "bigint", section(F.col("value"))) == [None] * 3


@pytest.mark.parametrize(
    ("example", "older", "newer"),
    [
        ("example 1", "77", "7B"),
        ("example 2", "FFF/B", "FFF/ABC"),
        ("example 3", "BA/FFFFFFFF", "ABC"),
        ("example 4", "ABC", "FFF/ABC"),
    ],
)
def test_the_four_documented_comparisons_hold_for_plain_string_order(
    spark: SparkSession, example: str, older: str, newer: str
) -> None:
    first, second = values(spark, [older, newer], "string", canonical(F.col("value")))
    assert str(first) < str(second), example


def test_the_whole_documented_range_is_canonical_in_either_case(spark: SparkSession) -> None:
    most = "/".join(["f" * 16] * 4)
    found = values(spark, ["0/0/0/0", most, "18F2EBB6480"], "string", canonical(F.col("value")))
    assert found == ["/".join(["0" * 16] * 4), most.upper(), "0000018F2EBB6480"]


def test_malformed_text_has_no_canonical_form(spark: SparkSession) -> None:
    rows = [None, "", "/", "1/", "/1", "1//2", "G", " 1", "1\n", "-1", "0x1", "1/2/3/4/5", "1" * 17]
    assert values(spark, rows, "string", canonical(F.col("value"))) == [None] * len(rows)


def test_timestamps_count_microseconds_and_dates_days_since_1970(spark: SparkSession) -> None:
    moment = datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=timezone.utc)
    by_time = from_column(F.col("value"), T.TimestampType())
    by_day = from_column(F.col("value"), T.DateType())
    assert values(spark, [moment], "timestamp", by_time) == [f"{1_000_005:016X}"]
    days = [date(1970, 1, 11), date(1969, 1, 1)]
    assert values(spark, days, "date", by_day) == [f"{10:016X}", None]


def test_types_without_an_order_have_no_sequence(spark: SparkSession) -> None:
    assert values(spark, [1.0], "double", from_column(F.col("value"), T.DoubleType())) == [None]
    scaled = from_column(F.col("value"), T.DecimalType(9, 2))
    assert values(spark, [Decimal("1.00")], "decimal(9,2)", scaled) == [None]


def test_joined_sections_are_null_when_one_of_them_is(spark: SparkSession) -> None:
    joined = join(section(F.lit(1)), section(F.col("value")))
    assert values(spark, [2, None], "bigint", joined) == [f"{1:016X}/{2:016X}", None]
