"""Trying a rule on rows that are already there, before it may reject any."""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Expectation
from silver.expectations.mismatches import mismatch
from silver.expectations.row_sql import failing_sql
from silver.expectations.rules import EXPECTATIONS


class Trial(NamedTuple):
    """What a rule would do: rows looked at, rows that fail, and why it cannot be tried at all."""

    rows: int
    failing: int
    problem: str | None = None


def trial(rows: DataFrame, expectation: Expectation) -> Trial:
    """How many of these rows the expectation would reject; one pass over them, no writes."""
    problem = _find_problem(rows, expectation)
    if problem:
        return Trial(rows.count(), 0, problem)
    counts = rows.agg(F.expr("count(1)"), F.expr(f"count_if({failing_sql(expectation)})"))
    return Trial(*counts.collect()[0])


def _find_problem(rows: DataFrame, expectation: Expectation) -> str | None:
    if EXPECTATIONS[expectation.type].scope != "row":
        return f"{expectation.type} is no row rule: only `lakehouse quality` decides it"
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    return mismatch(expectation, types)
