from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.spark.local_rows import local_rows
from silver.contract import GATED_COLUMNS
from silver.snapshot_source.comparison import SnapshotFiles, compare_rows
from silver.snapshot_source.row_digests import KEY_DIGEST, VALUE_DIGEST, with_digests


def value_digests(spark: SparkSession, sql: str) -> list[bytes]:
    rows = with_digests(spark.sql(sql), ["id"])
    return [bytes(row[VALUE_DIGEST]) for row in rows.orderBy("id").collect()]


def test_texts_that_run_together_nulls_and_empty_texts_do_not_collide(spark: SparkSession) -> None:
    found = value_digests(
        spark,
        "SELECT * FROM VALUES (1, 'ab', 'c'), (2, 'a', 'bc'), (3, 'abc', ''), (4, 'abc', null), "
        "(5, null, 'abc'), (6, null, null), (7, '', ''), (8, 'a1:b', ''), (9, 'a', '1:b') "
        "AS t (id, a, b)",
    )
    assert len(set(found)) == 9
    assert {len(one) for one in found} == {32}


def test_a_text_cannot_pretend_to_be_another_column(spark: SparkSession) -> None:
    found = value_digests(
        spark, "SELECT * FROM VALUES (1, 'x1:b1:y', null), (2, 'x', 'y') AS t (id, a, b)"
    )
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT 1 AS id, 'x' AS a", "SELECT 1 AS id, 'x' AS a, cast(null AS int) AS b"),
        ("SELECT 1 AS id, 'x' AS a, 2 AS b", "SELECT 1 AS id, 2 AS b, 'x' AS a"),
        ("SELECT 1 AS id, 2 AS a", "SELECT 1 AS id, 2L AS a"),
        ("SELECT 1 AS id, 1.50BD AS a", "SELECT 1 AS id, cast(1.5 AS decimal(20,6)) AS a"),
        ("SELECT 1 AS id, 100.00BD AS a", "SELECT 1 AS id, cast(100 AS decimal(20,6)) AS a"),
        ("SELECT 1 AS id, 0.0D AS a", "SELECT 1 AS id, -0.0D AS a"),
        ("SELECT 1 AS id, map(1, 'a', 2, 'b') AS a", "SELECT 1 AS id, map(2, 'b', 1, 'a') AS a"),
        ("SELECT 1 AS id, 'x' AS a, 1 AS _batch", "SELECT 1 AS id, 'x' AS a, 2 AS _batch"),
    ],
)
def test_equal_rows_have_equal_digests(spark: SparkSession, one: str, other: str) -> None:
    assert value_digests(spark, one) == value_digests(spark, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT 1 AS id, 10.00BD AS a", "SELECT 1 AS id, 100.00BD AS a"),
        ("SELECT 1 AS id, array('a', null) AS a", "SELECT 1 AS id, array('a') AS a"),
        ("SELECT 1 AS id, array('a,b') AS a", "SELECT 1 AS id, array('a', 'b') AS a"),
        ("SELECT 1 AS id, 1 AS a", "SELECT 1 AS id, 1 AS b"),
        (
            "SELECT 1 AS id, array(timestamp '2024-01-01 00:00:00.000001Z') AS a",
            "SELECT 1 AS id, array(timestamp '2024-01-01 00:00:00.000002Z') AS a",
        ),
    ],
)
def test_different_rows_have_different_digests(spark: SparkSession, one: str, other: str) -> None:
    assert value_digests(spark, one) != value_digests(spark, other)


def test_operational_columns_are_not_compared(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES (1, 'a', 1), (2, 'a', 2) AS t (id, a, seen)")
    found = with_digests(rows, ["id"], ["seen"]).collect()
    assert found[0][VALUE_DIGEST] == found[1][VALUE_DIGEST]
    assert found[0][KEY_DIGEST] != found[1][KEY_DIGEST]


WAS = [(1, "same"), (2, "old"), (3, "missing"), (4, None), (5, "")]
CAME = [(1, "same"), (2, "new"), (4, ""), (5, ""), (6, "added")]
TABLE = Table.model_validate(
    {"table": "t", "source": {"format": "snapshot", "path": "s", "mode": "full"}, "keys": ["id"]}
)
GATED = ", ".join(f"{column.name} {column.type}" for column in GATED_COLUMNS)


def letters(
    spark: SparkSession, was: list[Any], came: list[Any], deletes: bool, once: bool
) -> dict[int, str]:
    state = with_digests(spark.createDataFrame(was, "id int, a string"), ["id"])
    named = [{"id": id, "a": a, "_arrival": f"{at:08X}"} for at, (id, a) in enumerate(came)]
    staged = with_digests(local_rows(spark, named, f"id int, a string, {GATED}"), ["id"])
    extract = SnapshotFiles(date(2024, 1, 2), "0", "0", "feed", 1, deletes)
    rows = compare_rows(staged, state.drop("a"), TABLE, extract, once).collect()
    return {row["id"]: row["_letter"] for row in rows}


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize(("deletes", "missing"), [(True, {3: "D"}), (False, {})])
def test_every_key_gets_the_letter_of_what_happened_to_it(
    spark: SparkSession, deletes: bool, missing: dict[int, str], once: bool
) -> None:
    found = letters(spark, WAS, CAME, deletes, once)
    assert found == {1: "N", 2: "U", 4: "U", 5: "N", 6: "I"} | missing


def test_the_first_extract_is_all_new(spark: SparkSession) -> None:
    assert letters(spark, [], [(1, "a")], True, True) == {1: "I"}
