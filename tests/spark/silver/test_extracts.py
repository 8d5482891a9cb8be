from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.spark.local_rows import local_rows
from silver.contract import GATED_COLUMNS
from silver.snapshot_source.comparison import SnapshotFiles, compare_rows

DAY = SnapshotFiles(date(2024, 1, 2), "feed", 1, full=True)
GATED = ", ".join(f"{column.name} {column.type}" for column in GATED_COLUMNS)


def table(**options: object) -> Table:
    source = {"format": "snapshot", "path": "s", "mode": "full"}
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]} | options)


def decoded(rows: DataFrame) -> DataFrame:
    """The rows as decoded ones, in their order of arrival."""
    own = {column.name: F.lit(None).cast(column.type) for column in GATED_COLUMNS}
    arrival = F.format_string("%08X", F.monotonically_increasing_id())
    return rows.withColumns(own | {"_arrival": arrival})


def letter(spark: SparkSession, was: str, came: str) -> str:
    """The letter of the only key, whose row `was` SQL's and `came` as another's."""
    (row,) = compare_rows(decoded(spark.sql(came)), spark.sql(was), table(), DAY).collect()
    return str(row["_letter"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 AS id, 'x' AS a", "1 AS id, 'x' AS a, cast(null AS int) AS b"),
        ("1 AS id, 'x' AS a, 2 AS b", "1 AS id, 2 AS b, 'x' AS a"),
        ("1 AS id, 2 AS a", "1 AS id, 2L AS a"),
        ("1 AS id, 1.50BD AS a", "1 AS id, cast(1.5 AS decimal(20,6)) AS a"),
        ("1 AS id, 100.00BD AS a", "1 AS id, cast(100 AS decimal(20,6)) AS a"),
        ("1 AS id, 0.0D AS a", "1 AS id, -0.0D AS a"),
        ("1 AS id, double('NaN') AS a", "1 AS id, double('NaN') AS a"),
        ("1 AS id, map(1, 'a', 2, 'b') AS a", "1 AS id, map(2, 'b', 1, 'a') AS a"),
        ("1 AS id, struct(map(1, 'a') AS m) AS a", "1 AS id, struct(map(1, 'a') AS m) AS a"),
        ("1 AS id, parse_json('{\"a\":1}') AS a", "1 AS id, parse_json('{ \"a\": 1}') AS a"),
    ],
)
def test_a_row_with_the_same_values_is_unchanged(spark: SparkSession, one: str, other: str) -> None:
    assert letter(spark, f"SELECT {one}", f"SELECT {other}") == "N"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("'ab' AS a, 'c' AS b", "'a' AS a, 'bc' AS b"),
        ("'abc' AS a, '' AS b", "'abc' AS a, cast(null AS string) AS b"),
        ("'x1:b1:y' AS a, cast(null AS string) AS b", "'x' AS a, 'y' AS b"),
        ("cast(null AS string) AS a, 'x' AS b", "'x' AS a, cast(null AS string) AS b"),
        ("10.00BD AS a", "100.00BD AS a"),
        ("array('a', null) AS a", "array('a') AS a"),
        ("array('a,b') AS a", "array('a', 'b') AS a"),
        ("map(1, 'a', 2, 'b') AS a", "map(1, 'b', 2, 'a') AS a"),
        ("struct(map(1, 'a') AS m) AS a", "struct(map(1, 'b') AS m) AS a"),
        ("timestamp '2024-01-01 00:00:00.000001Z' AS a", "timestamp '2024-01-01 00:00:00Z' AS a"),
    ],
)
def test_a_row_with_other_values_is_changed(spark: SparkSession, one: str, other: str) -> None:
    assert letter(spark, f"SELECT 1 AS id, {one}", f"SELECT 1 AS id, {other}") == "U"


def test_operational_columns_decide_no_letter_and_are_written(spark: SparkSession) -> None:
    config = table(columns={"seen": {"type": "int", "operational": True}})
    was = spark.sql("SELECT * FROM VALUES (1, 'a', 1), (2, 'a', 1) AS t (id, a, seen)")
    came = spark.sql("SELECT * FROM VALUES (1, 'a', 2), (2, 'a', 1) AS t (id, a, seen)")
    rows = compare_rows(decoded(came), was, config, DAY).orderBy("id").collect()
    found = [(row["_letter"], row["_operation"], row["seen"]) for row in rows]
    assert found == [("N", "upsert", 2), ("N", "none", None)]


WAS = [(1, "same"), (2, "old"), (3, "missing"), (4, None), (5, "")]
CAME = [(1, "same"), (2, "new"), (4, ""), (5, ""), (6, "added")]
COLUMNS = "id int, a string"


def letters(
    spark: SparkSession, was: list[Any], came: list[dict[str, Any]], full: bool = True
) -> list[tuple[Any, ...]]:
    """The rows of the log: id, letter, operation, reason."""
    named = [{"_arrival": f"{at:08X}"} | row for at, row in enumerate(came)]
    rows = local_rows(spark, named, f"{COLUMNS}, {GATED}")
    live = spark.createDataFrame(was, COLUMNS) if was else None
    found = compare_rows(rows, live, table(), DAY._replace(full=full)).collect()
    chosen = [(r["id"], r["_letter"], r["_operation"], r["_reason"]) for r in found]
    return sorted(chosen, key=str)


@pytest.mark.parametrize(("full", "missing"), [(True, [(3, "D", "delete", None)]), (False, [])])
def test_every_key_gets_the_letter_of_what_happened_to_it(
    spark: SparkSession, full: bool, missing: list[Any]
) -> None:
    found = letters(spark, WAS, [{"id": id, "a": a} for id, a in CAME], full)
    expected = [
        (1, "N", "none", None),
        (2, "U", "upsert", None),
        *missing,
        (4, "U", "upsert", None),
        (5, "N", "none", None),
        (6, "I", "upsert", None),
    ]
    assert found == expected


def test_the_first_extract_is_all_new(spark: SparkSession) -> None:
    assert letters(spark, [], [{"id": 1, "a": "a"}]) == [(1, "I", "upsert", None)]


def test_of_several_rows_of_a_key_the_newest_valid_one_counts(spark: SparkSession) -> None:
    came = [
        {"id": 1, "a": "old"},
        {"id": 1, "a": "same"},
        {"id": 1, "a": "same"},
        {"id": 1, "_reason": "bad_value"},
        {"id": 3, "_reason": "bad_value"},
        {"_reason": "not_json"},
    ]
    assert letters(spark, [(1, "same"), (3, "kept")], came) == [
        (1, "N", "none", None),
        (1, None, "none", None),
        (1, None, None, "bad_value"),
        (1, None, None, "duplicate_key"),
        (3, None, None, "bad_value"),
        (None, None, None, "not_json"),
    ]
