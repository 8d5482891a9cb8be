"""The four LIKE expectations for Great Expectations on Spark, where it has them for SQL only.

Importing this module registers them; the classes are what Great Expectations asks for. A null is
left out by Great Expectations itself.
"""

from functools import reduce
from operator import or_
from typing import Any

from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics import (
    ColumnMapMetricProvider,
    column_condition_partial,
)
from pyspark.sql import Column
from pyspark.sql import functions as F


class MatchLikePattern(ColumnMapMetricProvider):
    """`expect_column_values_to_match_like_pattern`."""

    condition_metric_name = "column_values.match_like_pattern"
    condition_value_keys = ("like_pattern", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, like_pattern: str, **given: Any) -> Column:
        return _any_like(column, [like_pattern], given.get("escape"))


class NotMatchLikePattern(ColumnMapMetricProvider):
    """`expect_column_values_to_not_match_like_pattern`."""

    condition_metric_name = "column_values.not_match_like_pattern"
    condition_value_keys = ("like_pattern", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, like_pattern: str, **given: Any) -> Column:
        return ~_any_like(column, [like_pattern], given.get("escape"))


class MatchLikePatternList(ColumnMapMetricProvider):
    """`expect_column_values_to_match_like_pattern_list`: any of the patterns, or all."""

    condition_metric_name = "column_values.match_like_pattern_list"
    condition_value_keys = ("like_pattern_list", "match_on", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, like_pattern_list: list[str], **given: Any) -> Column:
        if given.get("match_on") == "all":
            return ~_any_unlike(column, like_pattern_list, given.get("escape"))
        return _any_like(column, like_pattern_list, given.get("escape"))


class NotMatchLikePatternList(ColumnMapMetricProvider):
    """`expect_column_values_to_not_match_like_pattern_list`: none of the patterns."""

    condition_metric_name = "column_values.not_match_like_pattern_list"
    condition_value_keys = ("like_pattern_list", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, like_pattern_list: list[str], **given: Any) -> Column:
        return ~_any_like(column, like_pattern_list, given.get("escape"))


def _any_like(column: Column, patterns: list[str], escape: str | None) -> Column:
    return reduce(or_, [_like(column, pattern, escape) for pattern in patterns])


def _any_unlike(column: Column, patterns: list[str], escape: str | None) -> Column:
    return reduce(or_, [~_like(column, pattern, escape) for pattern in patterns])


def _like(column: Column, pattern: str, escape: str | None) -> Column:
    return F.like(column, F.lit(pattern), F.lit(escape)) if escape else column.like(pattern)
