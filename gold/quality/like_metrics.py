"""The four LIKE expectations for Great Expectations on Spark, where it has them for SQL only.

Great Expectations needs a class for each; it leaves nulls out by itself.
"""

from collections.abc import Callable
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


def _define_metric(name: str, keys: tuple[str, ...], condition: Callable[..., Column]) -> None:
    """Makes the class of a metric, by which Great Expectations finds its condition."""

    def _spark(cls: type, column: Column, **given: object) -> Column:
        return condition(column, **{key: given.get(key) for key in keys})

    decorated = column_condition_partial(engine=SparkDFExecutionEngine)(_spark)
    named = {"condition_metric_name": f"column_values.{name}", "condition_value_keys": keys}
    type(name, (ColumnMapMetricProvider,), {**named, "__module__": __name__, "_spark": decorated})


def _match_like_list(
    column: Column, like_pattern_list: list[str], escape: str | None, match_on: str | None = None
) -> Column:
    """Whether the value matches any of the patterns, or with `match_on=all` every one."""
    combine = and_ if match_on == "all" else or_
    return reduce(combine, [_match_like(column, like, escape) for like in like_pattern_list])


def _match_like(column: Column, like_pattern: str, escape: str | None) -> Column:
    return (
        F.like(column, F.lit(like_pattern), F.lit(escape)) if escape else column.like(like_pattern)
    )


_define_metric("match_like_pattern", ("like_pattern", "escape"), _match_like)
_define_metric(
    "not_match_like_pattern", ("like_pattern", "escape"), lambda *of, **by: ~_match_like(*of, **by)
)
_LIST = ("like_pattern_list", "escape")
_define_metric("match_like_pattern_list", (*_LIST, "match_on"), _match_like_list)
_define_metric("not_match_like_pattern_list", _LIST, lambda *of, **by: ~_match_like_list(*of, **by))
