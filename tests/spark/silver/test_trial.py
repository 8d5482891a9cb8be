from typing import TYPE_CHECKING

from lakehouse.config.table import Expectation
from silver.expectations.row_sql import Trial, try_expectation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_trial_counts_the_rows_that_a_rule_would_reject(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([(1,), (-1,), (None,)], "qty int")
    rule = {"type": "expect_column_values_to_be_between", "column": "qty", "min_value": 0}
    assert try_expectation(rows, Expectation.model_validate(rule)) == Trial(rows=3, failing=1)


def test_a_trial_says_why_a_rule_cannot_be_tried(spark: "SparkSession") -> None:
    rows = spark.createDataFrame([("a",)], "qty string")
    rule = {"type": "expect_column_values_to_be_between", "column": "qty", "min_value": 0}
    found = try_expectation(rows, Expectation.model_validate(rule))
    assert (found.rows, found.failing) == (1, 0)
    assert "qty is string" in str(found.problem)


def test_a_rule_about_the_table_cannot_be_tried_on_rows(spark: "SparkSession") -> None:
    rule = {"type": "expect_column_values_to_be_unique", "column": "qty"}
    found = try_expectation(
        spark.createDataFrame([(1,)], "qty int"), Expectation.model_validate(rule)
    )
    assert "no row rule" in str(found.problem)
