"""The four LIKE expectations for Great Expectations on Spark, where it has them for SQL only.

The classes are what Great Expectations asks for; it leaves nulls out by itself.
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


def _register(metric: str, arguments: tuple[str, ...], negated: bool) -> type:
    """Makes the class of a metric, by which Great Expectations finds it."""
    patterns, *_ = arguments

    def _spark(cls: type, column: Column, **given: object) -> Column:
        found = given[patterns]
        listed = found if isinstance(found, list) else [found]
        combine: Callable[[Column, Column], Column]
        combine = and_ if given.get("match_on") == "all" else or_
        matched = reduce(combine, [_like(column, like, given.get("escape")) for like in listed])
        return ~matched if negated else matched

    condition = column_condition_partial(engine=SparkDFExecutionEngine)(_spark)
    names = {"condition_metric_name": metric, "condition_value_keys": arguments}
    return type(metric, (ColumnMapMetricProvider,), {**names, "_spark": condition})


def _like(column: Column, pattern: object, escape: object) -> Column:
    text = F.lit(pattern)
    return F.like(column, text, F.lit(escape)) if escape else F.like(column, text)


METRICS = (
    _register("column_values.match_like_pattern", ("like_pattern", "escape"), False),
    _register("column_values.not_match_like_pattern", ("like_pattern", "escape"), True),
    _register(
        "column_values.match_like_pattern_list", ("like_pattern_list", "match_on", "escape"), False
    ),
    _register("column_values.not_match_like_pattern_list", ("like_pattern_list", "escape"), True),
)
