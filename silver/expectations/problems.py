"""What is wrong with a table's expectations, found without Spark or Great Expectations.

One line each: dotted key, what was found, what was expected. For example
`expectations[2].min_value: found 'a', expected a number, a date or a timestamp`.
"""

import re
from collections.abc import Iterator

from lakehouse.config.table import Expectation, Table
from lakehouse.config.target import Target
from lakehouse.config.unpacking import find_nearest
from lakehouse.storage.delta_log import read_table_log
from silver.expectations.arguments import find_argument_problem
from silver.expectations.literals import read_bound
from silver.expectations.mismatches import find_mismatch
from silver.expectations.row_condition import read_condition
from silver.expectations.rules import ALWAYS_ALLOWED, EXPECTATIONS, SET_BY_QUALITY, columns_of

COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list")
ABOUT_OTHER_COLUMNS = ("expect_column_to_exist", "expect_table_columns_")
"""Beginnings of expectations that may name a missing column: they check whether it exists."""


def find_problems(table: Table) -> list[str]:
    """What is wrong with the expectations as the YAML has them."""
    problems: list[str] = []
    for place, expectation in enumerate(table.expectations):
        wrong = list(_find_own_problems(expectation)) or list(_find_mismatches(expectation, table))
        repeated = list(_find_repetition(expectation, table.expectations[:place]))
        problems += [f"expectations[{place}]{problem}" for problem in wrong or repeated]
    return problems


def find_unknown_columns(target: Target, table: Table) -> list[str]:
    """A line per column that an expectation names and that the table cannot have.

    A table's columns are known when its change log exists in a local lake, or when the YAML
    declares all keys and at least one more column: it must then declare every column that a rule
    names. Otherwise any name may be that of an undeclared column, and no line is returned.
    """
    log = read_table_log(target, "silver", f"{table.table}_changes")
    if not (table.keys and table.is_declared) and log is None:
        return []
    logged = {name for name in log.columns if not name.startswith("_")} if log else set()
    columns = sorted({*table.columns, *table.keys, *logged})
    return [
        f"expectations[{place}].{argument}: found {name!r},"
        f" expected {find_nearest(name, columns) or 'a declared column'},"
        " or declare it in `columns`"
        for place, each in enumerate(table.expectations)
        for argument, name in _list_columns(each)
        if name not in columns
    ]


def _list_columns(expectation: Expectation) -> Iterator[tuple[str, str]]:
    if expectation.type.startswith(ABOUT_OTHER_COLUMNS):
        return
    for argument in COLUMN_ARGUMENTS:
        given = expectation.arguments.get(argument)
        for name in given if isinstance(given, list) else [given]:
            if isinstance(name, str):
                yield argument, name


def _suggest_type(written: str) -> str:
    """The most similar known type, but never that of the opposite expectation."""
    candidates = [name for name in EXPECTATIONS if _is_negative(name) == _is_negative(written)]
    example = "a name of Great Expectations, such as expect_column_values_to_not_be_null"
    return find_nearest(written, sorted(candidates)) or example


def _is_negative(name: str) -> bool:
    """Whether the expectation of this name demands that something is not so."""
    return any(word.startswith("not") for word in name.split("_"))


def _find_repetition(expectation: Expectation, earlier: list[Expectation]) -> Iterator[str]:
    previous = [(other.type, other.arguments) for other in earlier]
    if (expectation.type, expectation.arguments) in previous:
        place = previous.index((expectation.type, expectation.arguments))
        yield f": found a repetition of expectations[{place}], expected it once"


def _find_own_problems(expectation: Expectation) -> Iterator[str]:
    rule = EXPECTATIONS.get(expectation.type)
    if rule is None:
        yield f".type: found {expectation.type!r}, expected {_suggest_type(expectation.type)}"
    elif rule.scope == "unsupported":
        yield f".type: found {expectation.type}, which Great Expectations cannot evaluate on Spark"
    else:
        wrong = list(_find_wrong_arguments(expectation, rule.arguments))
        yield from wrong or _find_contradictions(expectation)


def _find_wrong_arguments(expectation: Expectation, kinds: dict[str, str]) -> Iterator[str]:
    arguments, allowed = expectation.arguments, {**ALWAYS_ALLOWED, **kinds}
    for name, kind in kinds.items():
        if kind.endswith("!") and arguments.get(name) is None:
            yield f".{name}: found nothing, expected it: {expectation.type} needs it"
    for name, value in arguments.items():
        if name in SET_BY_QUALITY:
            yield f".{name}: found {value!r}, expected nothing: the lakehouse sets it"
        elif name not in allowed:
            expected = find_nearest(name, sorted(kinds)) or f"one of {', '.join(sorted(kinds))}"
            yield f".{name}: found an unknown argument, expected {expected}"
        elif value is not None:
            problem = find_argument_problem(allowed[name].rstrip("!"), value)
            yield from [f".{name}: {problem}"] if problem else []


def _find_contradictions(expectation: Expectation) -> Iterator[str]:
    arguments = expectation.arguments
    yield from _find_condition_contradictions(expectation)
    compares = EXPECTATIONS[expectation.type].needs == "alike"
    if compares and "column_list" in arguments and len(columns_of(expectation)) < 2:
        yield f".column_list: found {arguments['column_list']!r}, expected at least two columns"
    yield from _find_bound_contradictions(expectation)
    yield from _find_pattern_contradictions(expectation)


def _find_condition_contradictions(expectation: Expectation) -> Iterator[str]:
    arguments = expectation.arguments
    condition = arguments.get("row_condition")
    try:
        read_condition(arguments)
    except ValueError as error:
        expected = 'such as col("a") > 1, or col("a").notnull()'
        yield f".row_condition: found {str(error)!r}, expected {expected}"
    if arguments.get("condition_parser") and not condition:
        yield ".condition_parser: found it without a row_condition, expected both or neither"
    if expectation.type == "expect_column_pair_values_to_be_in_set" and condition:
        yield ".row_condition: found one, expected none: Great Expectations ignores it here"


def _find_bound_contradictions(expectation: Expectation) -> Iterator[str]:
    if "min_value" not in EXPECTATIONS[expectation.type].arguments:
        return
    low, high = (expectation.arguments.get(name) for name in ("min_value", "max_value"))
    if low is None and high is None and expectation.type.startswith("expect_column_value"):
        yield ".min_value: found neither min_value nor max_value, expected one of them"
    if low is not None and high is not None and not _are_ordered(read_bound(low), read_bound(high)):
        expected = "it to be at most max_value, and both numbers or both times"
        yield f".min_value: found {low!r}, expected {expected}"


def _are_ordered(low: object, high: object) -> bool:
    if isinstance(low, float) and isinstance(high, float):
        return low <= high
    return type(low) is type(high) and str(low) <= str(high)


def _find_pattern_contradictions(expectation: Expectation) -> Iterator[str]:
    """A LIKE pattern's escape character must stand before itself, _ or %: else Spark fails."""
    arguments = expectation.arguments
    escape = re.escape(arguments.get("escape") or "\\")
    single = arguments.get("like_pattern")
    key = "like_pattern" if single else "like_pattern_list"
    for pattern in [single] if single else arguments.get("like_pattern_list", []):
        if not re.fullmatch(f"(?:{escape}(?:{escape}|[_%])|(?!{escape}).)*", pattern, re.S):
            yield f".{key}: found {pattern!r}, expected _, % or itself after the escape character"


def _find_mismatches(expectation: Expectation, table: Table) -> Iterator[str]:
    """Rules on columns that the table leaves out, and rules that do not fit the declared types."""
    for name in columns_of(expectation):
        excluded = name in (table.except_column_list or [])
        if excluded or (table.column_list is not None and name not in table.column_list):
            key = "except_column_list" if excluded else "column_list"
            yield f": found a rule on {name!r}, expected a column that {key} does not leave out"
    types = {name: column.type for name, column in table.columns.items()}
    is_row_rule = EXPECTATIONS[expectation.type].scope == "row"
    if is_row_rule and (reason := find_mismatch(expectation, types)):
        yield f": found that {reason}, expected a rule that fits the declared types"
