"""Row-level expectations as Spark expressions, with Great Expectations' own semantics.

Each function below says what is expected of a row. Around it: nulls of a single column are not
looked at (but by the two null checks), `ignore_row_if` and `row_condition` leave rows out, and a
comparison with null is no failure. The source of each is the Spark metric of the same name in
`great_expectations.expectations.metrics`; a property test holds the two against each other.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import combinations
from operator import and_, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.config.table import Expectation
from lakehouse.storage.names import quote
from silver.expectations.row_condition import row_condition
from silver.expectations.text_formats import is_json, matches_strftime
from silver.expectations.value_kinds import bound

Arguments = Mapping[str, Any]
_NULL_CHECKS = ("expect_column_values_to_not_be_null", "expect_column_values_to_be_null")


def failing(expectation: Expectation) -> Column:
    """True on the rows that Great Expectations would list as unexpected, else false, never null."""
    arguments = expectation.arguments
    expected = _evaluated(expectation) & ~_expected(expectation)
    return F.coalesce(row_condition(arguments) & expected, F.lit(False))


def columns_of(expectation: Expectation) -> tuple[str, ...]:
    """The columns that a row-level expectation looks at, those of its row condition apart."""
    arguments = expectation.arguments
    single = [arguments[name] for name in ("column", "column_A", "column_B") if name in arguments]
    return tuple(single) or tuple(arguments.get("column_list", ()))


def _evaluated(expectation: Expectation) -> Column:
    """Whether the nulls of the row leave anything to check."""
    gaps = [_col(name).isNull() for name in columns_of(expectation)]
    if "column" in expectation.arguments:
        return F.lit(True) if expectation.type in _NULL_CHECKS else ~gaps[0]
    ignore = expectation.arguments.get("ignore_row_if", "all_values_are_missing")
    if ignore in ("both_values_are_missing", "all_values_are_missing"):
        return ~reduce(and_, gaps)
    return (
        ~reduce(or_, gaps)
        if ignore in ("either_value_is_missing", "any_value_is_missing")
        else F.lit(True)
    )


def _expected(expectation: Expectation) -> Column:
    arguments = expectation.arguments
    columns = [_col(name) for name in columns_of(expectation)]
    if expectation.type in _OF_ONE:
        return _OF_ONE[expectation.type](columns[0], arguments)
    return _OF_MANY[expectation.type](columns, arguments)


def _col(name: str) -> Column:
    return F.col(quote(name))


def _between(
    value: Column, arguments: Arguments, read: Callable[[object], object] = bound
) -> Column:
    low, high = arguments.get("min_value"), arguments.get("max_value")
    conditions = []
    if low is not None:
        least = F.lit(read(low))
        conditions.append(value > least if arguments.get("strict_min") else value >= least)
    if high is not None:
        most = F.lit(read(high))
        conditions.append(value < most if arguments.get("strict_max") else value <= most)
    return reduce(and_, conditions)


def _length_between(value: Column, arguments: Arguments) -> Column:
    return _between(F.length(value), arguments)


def _regex_list(value: Column, arguments: Arguments) -> Column:
    if arguments.get("match_on", "any") == "any":
        return value.rlike("|".join(arguments["regex_list"]))
    return reduce(and_, [value.rlike(regex) for regex in arguments["regex_list"]])


def _no_regex(value: Column, arguments: Arguments) -> Column:
    return reduce(and_, [~value.rlike(regex) for regex in arguments["regex_list"]])


def _like(value: Column, pattern: str, arguments: Arguments) -> Column:
    escape = arguments.get("escape")
    return F.like(value, F.lit(pattern), F.lit(escape)) if escape else value.like(pattern)


def _like_list(value: Column, arguments: Arguments) -> Column:
    combine = or_ if arguments.get("match_on", "any") == "any" else and_
    return reduce(
        combine, [_like(value, pattern, arguments) for pattern in arguments["like_pattern_list"]]
    )


def _no_like(value: Column, arguments: Arguments) -> Column:
    return ~reduce(
        or_, [_like(value, pattern, arguments) for pattern in arguments["like_pattern_list"]]
    )


def _greater(columns: list[Column], arguments: Arguments) -> Column:
    first, second = columns
    if arguments.get("or_equal"):
        return (first >= second) | first.eqNullSafe(second)
    return first > second


def _all_equal(columns: list[Column], _: Arguments) -> Column:
    return reduce(and_, [columns[0].eqNullSafe(other) for other in columns[1:]])


def _pair_in_set(columns: list[Column], arguments: Arguments) -> Column:
    pairs = [
        columns[0].eqNullSafe(F.lit(first)) & columns[1].eqNullSafe(F.lit(second))
        for first, second in arguments["value_pairs_set"]
    ]
    return reduce(or_, pairs)


def _all_different(columns: list[Column], _: Arguments) -> Column:
    return ~reduce(or_, [first.eqNullSafe(second) for first, second in combinations(columns, 2)])


def _sum(columns: list[Column], arguments: Arguments) -> Column:
    """Sum with nulls as 0; a sum too large for its type is no sum, and so not the total either."""
    total = reduce(F.try_add, [_summand(column) for column in columns])
    return total.eqNullSafe(F.lit(float(arguments["sum_total"])))


def _summand(column: Column) -> Column:
    return F.coalesce(column, F.lit(0))


_OF_ONE: dict[str, Callable[[Column, Arguments], Column]] = {
    "expect_column_values_to_not_be_null": lambda value, _: value.isNotNull(),
    "expect_column_values_to_be_null": lambda value, _: value.isNull(),
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_be_in_set": lambda value, given: value.isin(given["value_set"]),
    "expect_column_values_to_not_be_in_set": lambda value, given: ~value.isin(given["value_set"]),
    "expect_column_values_to_match_regex": lambda value, given: value.rlike(
        given.get("regex", "(?s).*")
    ),
    "expect_column_values_to_not_match_regex": lambda value, given: ~value.rlike(given["regex"]),
    "expect_column_values_to_match_regex_list": _regex_list,
    "expect_column_values_to_not_match_regex_list": _no_regex,
    "expect_column_values_to_match_like_pattern": lambda value, given: _like(
        value, given["like_pattern"], given
    ),
    "expect_column_values_to_not_match_like_pattern": lambda value, given: (
        ~_like(value, given["like_pattern"], given)
    ),
    "expect_column_values_to_match_like_pattern_list": _like_list,
    "expect_column_values_to_not_match_like_pattern_list": _no_like,
    "expect_column_value_lengths_to_equal": lambda value, given: (
        F.length(value) == float(given["value"])
    ),
    "expect_column_value_lengths_to_be_between": _length_between,
    "expect_column_values_to_match_strftime_format": lambda value, given: matches_strftime(
        value, given["strftime_format"]
    ),
    "expect_column_values_to_be_json_parseable": lambda value, _: is_json(value),
}

_OF_MANY: dict[str, Callable[[list[Column], Arguments], Column]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": _greater,
    "expect_column_pair_values_to_be_equal": _all_equal,
    "expect_column_pair_values_to_be_in_set": _pair_in_set,
    "expect_multicolumn_sum_to_equal": _sum,
    "expect_multicolumn_values_to_be_equal": _all_equal,
    "expect_select_column_values_to_be_unique_within_record": _all_different,
}
SAYABLE = frozenset(_OF_ONE) | frozenset(_OF_MANY)
