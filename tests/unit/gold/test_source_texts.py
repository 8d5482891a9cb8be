from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from sqlalchemy.dialects import mysql

from gold.source_check.plan import BUCKETS
from gold.source_check.rows import bucket_of, digest_texts, type_name
from gold.source_check.texts import is_comparable, is_equal, kind_of, text_of


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("bigint", "number"), ("numeric(12,2)", "number"), ("double precision", "float"),
        ("real", "real"), ("timestamp(3) without time zone", "timestamp"),
        ("timestamp with time zone", "timestamptz"), ("time without time zone", "time"),
        ("time with time zone", "timetz"), ("character(6)", "padded"), ("jsonb", "json"),
        ("character varying(40)", "text"), ("integer[]", "array"), ("shop.tier", "text"),
        ("interval", "interval"), ("INTEGER", "number"), ("VARCHAR(20)", "text"),
        ("TINYINT(1)", "number"), ("BIGINT(20) UNSIGNED", "number"), ("MEDIUMINT(9)", "number"),
        ("LONGBLOB", "bytes"), ("BIT(1)", "bool"), ("BIT", "bool"), ("BIT(10)", "bits"),
        ("YEAR(4)", "text"), ("money", "number"),
        ("int4range", "text"), ("datemultirange", "text"), ("int2vector", "text"),
        ("time_of_day", "text"), ("int8", "number"), ("boolean", "bool"), ("json", "json"),
        ("bit varying(8)", "text"), ("DATETIME(6)", "timestamp"), ("TIME(6)", "time"),
    ],
)  # fmt: skip
def test_the_kind_of_a_source_type(type: str, kind: str) -> None:
    assert kind_of(type) == kind


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (Decimal("1.50"), "number", "1.5"), (Decimal("100"), "number", "100"),
        (Decimal("1E+3"), "number", "1000"), (0.1, "float", "1.00000000000000e-01"),
        (0.1, "real", "1.00000001490116e-01"), (float("nan"), "float", "NaN"),
        (True, "bool", "true"), (0, "bool", "false"), ("ab  ", "padded", "ab"),
        (b"\x00\xff", "bytes", "00ff"), (date(2024, 1, 2), "date", "2024-01-02"),
        (datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "timestamptz",
         "2024-01-02T01:00:00.000000"),
        (timedelta(hours=-838, microseconds=-1), "time", "-3016800000001"),
        ("0101", "bits", "101"), ("0000-00-00 00:00:00", "timestamp", None),
        ("2024-02-00", "date", None), ("2024-10-20", "date", "2024-10-20"),
        (time(0, 0, 1, 5), "time", "1000005"), ([1, "a"], "array", '[1,"a"]'), (None, "text", None),
    ],
)  # fmt: skip
def test_equal_values_have_one_text(value: object, kind: str, text: str | None) -> None:
    assert text_of(value, kind) == text


@pytest.mark.parametrize(
    ("ours", "theirs", "kind", "equal"),
    [
        ("1.5", "1.50", "number", True), ("1.5", "1.51", "number", False),
        ("1.0E20", "1e+20", "float", True), ("NaN", "nan", "float", True),
        ("0.1", "0.10000000149011612", "real", True), ('{"a": 1.0}', '{"a":1}', "json", True),
        ('{"a": 1}', '{"a":2}', "json", False), ("AP8=", "00ff", "bytes", True),
        (None, "", "text", False), (None, None, "text", True), ("x", "y", "number", False),
    ],
)  # fmt: skip
def test_rows_are_compared_again_by_value(
    ours: str | None, theirs: str | None, kind: str, equal: bool
) -> None:
    assert is_equal(ours, theirs, kind) is equal


def test_texts_that_join_to_the_same_have_other_digests() -> None:
    rows = [("a", "b"), ("ab", ""), (None, "ab"), ("", "ab"), ("1:a", "b")]
    assert len({digest_texts(row) for row in rows}) == len(rows)


def test_a_bucket_is_told_by_the_key_alone() -> None:
    assert 0 <= bucket_of(digest_texts(("1",))) < BUCKETS


def test_arrays_of_times_are_left_out() -> None:
    assert is_comparable("text[]")
    assert not is_comparable("timestamp without time zone[]")


def test_the_names_of_mysql_s_types_tell_bits_and_floats() -> None:
    types = (mysql.BIT(10), mysql.BIT(1), mysql.FLOAT(), mysql.TINYINT(1))
    assert [kind_of(type_name(type)) for type in types] == ["bits", "bool", "real", "number"]
