"""What is wrong with a table's expectations, found without Spark or Great Expectations."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from lakehouse.config.table import Expectation, Table
from silver.expectations.arguments import argument_problem, condition_problem
from silver.expectations.mismatches import mismatch
from silver.expectations.names import ALWAYS_ALLOWED, EXPECTATIONS, SET_BY_QUALITY
from silver.expectations.row_rules import columns_of
from silver.expectations.value_kinds import bound

_DIFFERENT_ORDER = "found {}, expected it to be at most max_value, and both numbers or both times"


def problems(table: Table) -> list[str]:
    """What is wrong, one line each: dotted key, what was found, what was expected.

    For example `expectations[2].min_value: found 'a', expected a number, a date or a timestamp`.
    """
    found: list[str] = []
    for place, expectation in enumerate(table.expectations):
        own = list(_own_problems(expectation)) or list(_table_problems(expectation, table))
        repeated = list(_repetition(expectation, table.expectations[:place]))
        found += [f"expectations[{place}]{problem}" for problem in own or repeated]
    return found


def _repetition(expectation: Expectation, earlier: list[Expectation]) -> Iterator[str]:
    said = [(other.type, other.arguments) for other in earlier]
    if (expectation.type, expectation.arguments) in said:
        place = said.index((expectation.type, expectation.arguments))
        yield f": found a repetition of expectations[{place}], expected it once"


def _own_problems(expectation: Expectation) -> Iterator[str]:
    spelling = EXPECTATIONS.get(expectation.type)
    if spelling is None:
        yield f".type: found {expectation.type!r}, {_nearest(expectation.type, list(EXPECTATIONS))}"
    elif spelling.scope == "unsupported":
        yield f".type: found {expectation.type}, which Great Expectations cannot evaluate on Spark"
    else:
        wrong = list(_spelling_problems(expectation, spelling.arguments))
        yield from wrong or _contradictions(expectation)


def _nearest(word: str, words: list[str]) -> str:
    close = get_close_matches(word, words, n=1)
    return f"expected {close[0]}" if close else f"expected one of {', '.join(sorted(words))}"


def _spelling_problems(expectation: Expectation, kinds: dict[str, str]) -> Iterator[str]:
    arguments = expectation.arguments
    for name, kind in kinds.items():
        if kind.endswith("!") and arguments.get(name) is None:
            yield f".{name}: found nothing, expected it: {expectation.type} needs it"
    for name, value in arguments.items():
        allowed = {**ALWAYS_ALLOWED, **kinds}
        if name in SET_BY_QUALITY:
            yield f".{name}: found {value!r}, expected nothing: the lakehouse sets it"
        elif name not in allowed:
            yield f".{name}: found an unknown argument, {_nearest(name, list(kinds))}"
        elif value is not None and (problem := _argument(allowed[name], value)):
            yield f".{name}: {problem}"


def _argument(kind: str, value: object) -> str | None:
    return argument_problem(kind.rstrip("!"), value)


def _contradictions(expectation: Expectation) -> Iterator[str]:
    arguments = expectation.arguments
    if problem := condition_problem(arguments):
        yield f".row_condition: {problem}"
    if arguments.get("condition_parser") and not arguments.get("row_condition"):
        yield ".condition_parser: found it without a row_condition, expected both or neither"
    if expectation.type == "expect_column_pair_values_to_be_in_set" and arguments.get(
        "row_condition"
    ):
        yield ".row_condition: found one, expected none: Great Expectations ignores it here"
    if len(columns_of(expectation)) < 2 and "column_list" in arguments and _compares(expectation):
        yield f".column_list: found {arguments['column_list']!r}, expected at least two columns"
    yield from _bound_contradictions(expectation)
    yield from _pattern_contradictions(expectation)


def _compares(expectation: Expectation) -> bool:
    return EXPECTATIONS[expectation.type].scope == "row" and "sum" not in expectation.type


def _bound_contradictions(expectation: Expectation) -> Iterator[str]:
    if "min_value" not in EXPECTATIONS[expectation.type].arguments:
        return
    low, high = (expectation.arguments.get(name) for name in ("min_value", "max_value"))
    if low is None and high is None and expectation.type.startswith("expect_column_value"):
        yield ".min_value: found neither min_value nor max_value, expected one of them"
    if low is not None and high is not None and not _ordered(bound(low), bound(high)):
        yield f".min_value: {_DIFFERENT_ORDER.format(repr(low))}"


def _ordered(low: object, high: object) -> bool:
    if isinstance(low, float) and isinstance(high, float):
        return low <= high
    return type(low) is type(high) and str(low) <= str(high)


def _pattern_contradictions(expectation: Expectation) -> Iterator[str]:
    """An escape character that escapes nothing stops Spark when the first row is read."""
    arguments = expectation.arguments
    escape = re.escape(arguments.get("escape") or "\\")
    single = arguments.get("like_pattern")
    for pattern in [single] if single else arguments.get("like_pattern_list", []):
        if not re.fullmatch(f"(?:{escape}(?:{escape}|[_%])|(?!{escape}).)*", pattern, re.S):
            key = "like_pattern" if single else "like_pattern_list"
            yield f".{key}: found {pattern!r}, expected _, % or itself after the escape character"


def _table_problems(expectation: Expectation, table: Table) -> Iterator[str]:
    for name in columns_of(expectation):
        excluded = name in (table.except_column_list or [])
        if excluded or (table.column_list is not None and name not in table.column_list):
            key = "except_column_list" if excluded else "column_list"
            yield f": found a rule on {name!r}, expected a column that {key} does not leave out"
    types = {name: column.type for name, column in table.columns.items()}
    if EXPECTATIONS[expectation.type].scope == "row" and (reason := mismatch(expectation, types)):
        yield f": found that {reason}, expected a rule that fits the declared types"
