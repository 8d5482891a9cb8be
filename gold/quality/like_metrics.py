"""The four LIKE expectations for Great Expectations on Spark, where it has them for SQL only.

The classes are what Great Expectations asks for; it leaves nulls out by itself.
"""

from functools import reduce
from operator import and_, or_

from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.map_metric_provider.column_condition_partial import (
    column_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.column_map_metric_provider import (
    ColumnMapMetricProvider,
)
from pyspark.sql import Column
from pyspark.sql import functions as F


class MatchLikePattern(ColumnMapMetricProvider):
    """`expect_column_values_to_match_like_pattern`."""

    condition_metric_name = "column_values.match_like_pattern"
    condition_value_keys = ("like_pattern", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(
        cls, column: Column, like_pattern: str, escape: str | None = None, **_: object
    ) -> Column:
        return _like(column, like_pattern, escape)


class NotMatchLikePattern(ColumnMapMetricProvider):
    """`expect_column_values_to_not_match_like_pattern`."""

    condition_metric_name = "column_values.not_match_like_pattern"
    condition_value_keys = ("like_pattern", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(
        cls, column: Column, like_pattern: str, escape: str | None = None, **_: object
    ) -> Column:
        return ~_like(column, like_pattern, escape)


class MatchLikePatternList(ColumnMapMetricProvider):
    """`expect_column_values_to_match_like_pattern_list`: any of the patterns, or all."""

    condition_metric_name = "column_values.match_like_pattern_list"
    condition_value_keys = ("like_pattern_list", "match_on", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(
        cls,
        column: Column,
        like_pattern_list: list[str],
        match_on: str | None = None,
        escape: str | None = None,
        **_: object,
    ) -> Column:
        combine = and_ if match_on == "all" else or_
        return reduce(combine, [_like(column, like, escape) for like in like_pattern_list])


class NotMatchLikePatternList(ColumnMapMetricProvider):
    """`expect_column_values_to_not_match_like_pattern_list`: none of the patterns."""

    condition_metric_name = "column_values.not_match_like_pattern_list"
    condition_value_keys = ("like_pattern_list", "escape")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(
        cls, column: Column, like_pattern_list: list[str], escape: str | None = None, **_: object
    ) -> Column:
        return reduce(and_, [~_like(column, like, escape) for like in like_pattern_list])


def _like(column: Column, pattern: str, escape: str | None) -> Column:
    return F.like(column, F.lit(pattern), F.lit(escape)) if escape else column.like(pattern)
