"""Numbers of a batch that stand in no Java."""

import contextlib
import io
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.spark.local_rows import as_text

COMPILING = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark that writes Java for its queries."""
    before = {key: str(spark.conf.get(key)) for key in COMPILING}
    for key, value in COMPILING.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)


def numbered(spark: SparkSession, number: int) -> DataFrame:
    rows = spark.range(2).selectExpr("string(id) AS text")
    return rows.withColumn("_batch", as_text(number, F.col("text")))


def test_a_number_as_text_is_that_number_in_every_row(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES ('0'), (NULL) AS rows(text)")
    found = rows.withColumn("_batch", as_text(2**40, F.col("text"))).collect()
    assert [(row["text"], row["_batch"]) for row in found] == [("0", 2**40), (None, 2**40)]


def test_the_java_of_a_query_is_the_same_for_every_number(compiled: SparkSession) -> None:
    first, second = (java(numbered(compiled, number)) for number in (7, 8))
    assert "class" in first
    assert first == second
    inlined = [java(compiled.range(2).where(F.col("id") > number)) for number in (7, 8)]
    assert inlined[0] != inlined[1]


def java(rows: DataFrame) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        rows.explain("codegen")
    return told.getvalue().partition("Generated code:")[2]
