"""Row-level expectations as Spark SQL, with Great Expectations' own semantics.

Beside the SQL of `rules`: nulls of a single column are not checked (except by the two null checks),
`ignore_row_if` and `row_condition` leave rows out, and a comparison with null is no failure. The
model of each is the Spark metric of the same name in `great_expectations.expectations.metrics`; a
property test compares the two.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Expectation
from lakehouse.storage.names import quote
from silver.expectations.literals import read_bound, write_literal, write_membership
from silver.expectations.mismatches import find_mismatch
from silver.expectations.row_condition import condition_sql, read_condition
from silver.expectations.rules import EXPECTATIONS, columns_of
from silver.expectations.text_formats import is_json_sql, matches_strftime_sql

Columns = Sequence[str]
Arguments = Mapping[str, Any]
_NULL_CHECKS = ("expect_column_values_to_not_be_null", "expect_column_values_to_be_null")


def failing_sql(expectation: Expectation) -> str:
    """True on the rows that Great Expectations would list as unexpected, else false, never null."""
    pieces = _Pieces(list(map(quote, columns_of(expectation))), expectation.arguments)
    expected = EXPECTATIONS[expectation.type].sql.format_map(pieces)
    about = condition_sql(read_condition(expectation.arguments))
    return f"coalesce(({about}) AND {_has_values(expectation)} AND NOT ({expected}), false)"


def _has_values(expectation: Expectation) -> str:
    """Whether the nulls of the row leave anything to check."""
    columns, arguments = list(map(quote, columns_of(expectation))), expectation.arguments
    if "column" in arguments:
        return "true" if expectation.type in _NULL_CHECKS else f"{columns[0]} IS NOT NULL"
    ignore = arguments.get("ignore_row_if", "all_values_are_missing")
    gaps = [f"{column} IS NULL" for column in columns]
    if ignore in ("both_values_are_missing", "all_values_are_missing"):
        return f"NOT {_write_all(gaps)}"
    is_any = ignore in ("either_value_is_missing", "any_value_is_missing")
    return f"NOT {_write_any(gaps)}" if is_any else "true"


class _Pieces(dict[str, str]):
    """The pieces of a rule's SQL by name, each written when it is asked for."""

    def __init__(self, columns: Columns, arguments: Arguments) -> None:
        super().__init__(zip("ab", columns, strict=False))
        self._of = columns, arguments

    def __missing__(self, piece: str) -> str:
        return _PIECES[piece](*self._of)


def _write_all(conditions: Iterable[str]) -> str:
    return f"({' AND '.join(conditions)})"


def _write_any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions)})"


def _write_between(value: str, given: Arguments) -> str:
    conditions = []
    for name, strict, sign in (("min_value", "strict_min", ">"), ("max_value", "strict_max", "<")):
        if given.get(name) is not None:
            equal = "" if given.get(strict) else "="
            conditions.append(f"{value} {sign}{equal} {write_literal(read_bound(given[name]))}")
    return _write_all(conditions)


def _choose_joiner(given: Arguments) -> Callable[[Iterable[str]], str]:
    return _write_all if given.get("match_on") == "all" else _write_any


def _write_regex(column: str, regex: str) -> str:
    return f"({column} RLIKE {write_literal(regex)})"


def _write_regexes(columns: Columns, given: Arguments) -> str:
    if given.get("match_on") == "all":
        return _write_all(_write_regex(columns[0], regex) for regex in given["regex_list"])
    return _write_regex(columns[0], "|".join(given["regex_list"]))


def _write_like(column: str, pattern: str, given: Arguments) -> str:
    escape = f" ESCAPE {write_literal(given['escape'])}" if given.get("escape") else ""
    return f"({column} LIKE {write_literal(pattern)}{escape})"


def _write_greater(columns: Columns, given: Arguments) -> str:
    first, second = columns
    equal = f"{first} >= {second} OR {first} <=> {second}"
    return f"({equal})" if given.get("or_equal") else f"{first} > {second}"


def _write_pair_member(columns: Columns, given: Arguments) -> str:
    pairs = [zip(columns, pair, strict=True) for pair in given["value_pairs_set"]]
    return _write_any(
        _write_all(f"{name} <=> {write_literal(v)}" for name, v in pair) for pair in pairs
    )


def _write_sum(columns: Columns, _: Arguments) -> str:
    """The sum with nulls as 0; null where it is too large for its type, which fails the rule."""
    total = f"coalesce({columns[0]}, 0)"
    for column in columns[1:]:
        total = f"try_add({total}, coalesce({column}, 0))"
    return total


_PIECES: Mapping[str, Callable[[Columns, Arguments], str]] = {
    "between": lambda columns, given: _write_between(columns[0], given),
    "length_between": lambda columns, given: _write_between(f"length({columns[0]})", given),
    "value": lambda _, given: write_literal(float(given["value"])),
    "sum_total": lambda _, given: write_literal(float(given["sum_total"])),
    "member": lambda columns, given: write_membership(columns[0], given["value_set"]),
    "regex": lambda columns, given: _write_regex(columns[0], given.get("regex", "(?s).*")),
    "regexes": _write_regexes,
    "any_regex": lambda columns, given: _write_any(
        _write_regex(columns[0], r) for r in given["regex_list"]
    ),
    "like": lambda columns, given: _write_like(columns[0], given["like_pattern"], given),
    "likes": lambda columns, given: _choose_joiner(given)(
        _write_like(columns[0], pattern, given) for pattern in given["like_pattern_list"]
    ),
    "strftime": lambda columns, given: matches_strftime_sql(columns[0], given["strftime_format"]),
    "json": lambda columns, _: is_json_sql(columns[0]),
    "greater": _write_greater,
    "equal": lambda columns, _: _write_all(f"{columns[0]} <=> {other}" for other in columns[1:]),
    "pair_member": _write_pair_member,
    "sum": _write_sum,
    "repeated": lambda columns, _: _write_any(f"{a} <=> {b}" for a, b in combinations(columns, 2)),
}


class Trial(NamedTuple):
    """What a rule would do: rows checked, rows that fail, and why it cannot be tried at all."""

    rows: int
    failing: int
    problem: str | None = None


def try_expectation(rows: DataFrame, expectation: Expectation) -> Trial:
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
    return find_mismatch(expectation, types)
