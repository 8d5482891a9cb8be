"""The digest of a change: what makes it another one, and what does not."""

import pytest
from pyspark.sql import SparkSession

from silver.storage.row_columns import hash_change

EQUAL = [
    pytest.param("1L AS a, 'x' AS b", "'x' AS b, 1L AS a", id="columns in another order"),
    pytest.param("1L AS a", "1L AS a, CAST(NULL AS string) AS b", id="a later column"),
    pytest.param("1 AS a", "1L AS a", id="a wider integer"),
    pytest.param("CAST(0.1 AS float) AS a", "CAST(0.1 AS double) AS a", id="a wider float"),
    pytest.param(
        "CAST(1.50 AS decimal(5,2)) AS a", "CAST(1.50 AS decimal(20,2)) AS a", id="a wider decimal"
    ),
    pytest.param(
        "named_struct('x', 1) AS a", "named_struct('x', 1) AS a, NULL AS `b c`", id="a struct"
    ),
]
OTHER = [
    pytest.param("1L AS a, NULL AS b", "NULL AS a, 1L AS b", id="null in another column"),
    pytest.param("'' AS a", "CAST(NULL AS string) AS a", id="an empty text and null"),
    pytest.param("'ab' AS a, 'c' AS b", "'a' AS a, 'bc' AS b", id="texts cut elsewhere"),
    pytest.param("array(1) AS a", "array(1, 2) AS a", id="a list"),
    pytest.param("array() AS a", "CAST(NULL AS array<int>) AS a", id="an empty list and null"),
    pytest.param("0 AS a", "CAST(NULL AS int) AS a", id="zero and null"),
    pytest.param("DATE'2024-01-01' AS a", "DATE'2024-01-02' AS a", id="a date"),
]


def digest(spark: SparkSession, values: str, operation: str = "upsert") -> int:
    carried = "CAST(NULL AS array<string>)"
    rows = spark.sql(f"SELECT '{operation}' AS _operation, {carried} AS _absent, {values}")
    names = [name for name in rows.columns if not name.startswith("_")]
    [found] = rows.select(hash_change(rows.schema, names).alias("digest")).collect()
    return int(found["digest"])


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_a_redelivered_change_has_its_digest_again(
    spark: SparkSession, one: str, other: str
) -> None:
    assert digest(spark, one) == digest(spark, other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_change_has_another_digest(spark: SparkSession, one: str, other: str) -> None:
    assert digest(spark, one) != digest(spark, other)


def test_a_delete_is_no_upsert_of_the_same_values(spark: SparkSession) -> None:
    assert digest(spark, "1 AS a") != digest(spark, "1 AS a", "delete")
