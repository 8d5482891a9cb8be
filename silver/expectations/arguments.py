"""The values that arguments of expectations may have, by the kinds that `rules` uses."""

import re
from collections.abc import Callable, Mapping
from datetime import date

from silver.expectations.literals import is_moment, kind_of_value
from silver.expectations.text_formats import find_strftime_problem

_CERTAIN_REGEX_FAULTS = (
    "missing )",
    "unbalanced parenthesis",
    "unterminated character set",
    "nothing to repeat",
)
_CONDITION_KEYS = {
    "comparison": {"type", "column", "operator", "parameter"},
    "nullity": {"type", "column", "is_null"},
    "and": {"type", "conditions"},
    "or": {"type", "conditions"},
    "pass_through": {"type", "pass_through_filter"},
}
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "IN", "NOT_IN")
_CHOICES = {
    "parser": ("spark", "great_expectations", "great_expectations__experimental__"),
    "any_all": ("any", "all"),
    "pair_gap": ("both_values_are_missing", "either_value_is_missing", "neither"),
    "record_gap": ("all_values_are_missing", "any_value_is_missing", "never"),
    "outlier": ("iqr", "std"),
}


def find_argument_problem(kind: str, value: object) -> str | None:
    """What is wrong with the value of an argument of this kind, in words; None when nothing is."""
    if kind in _CHOICES:
        allowed = _CHOICES[kind]
        return None if value in allowed else _describe_problem(value, " or ".join(allowed))
    if kind in _PLAIN:
        fits, expected = _PLAIN[kind]
        return None if fits(value) else _describe_problem(value, expected)
    return _CHECKS[kind](value)


def _describe_problem(value: object, expected: str) -> str:
    return f"found {value!r}, expected {expected}"


def _is_number(value: object) -> bool:
    return kind_of_value(value) == "number"


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


_PLAIN: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "any": (lambda _: True, ""),
    "text": (lambda v: isinstance(v, str) and v != "", "a text"),
    "flag": (lambda v: isinstance(v, bool), "true or false"),
    "number": (_is_number, "a number"),
    "count": (lambda v: type(v) is int, "a whole number"),
    "share": (
        lambda v: isinstance(v, int | float) and _is_number(v) and 0 <= v <= 1,
        "a share from 0 to 1",
    ),
    "bound": (
        lambda v: isinstance(v, date) or _is_number(v) or is_moment(v),
        "a number, a date or a timestamp",
    ),
    "texts": (
        lambda v: isinstance(v, list) and bool(v) and all(isinstance(one, str) for one in v),
        "a list of texts, at least one",
    ),
    "pairs": (
        lambda v: isinstance(v, list) and bool(v) and all(map(_is_pair, v)),
        "a list of pairs such as [[1, a], [2, b]]",
    ),
    "mapping": (lambda v: isinstance(v, dict), "a mapping"),
    "letter": (lambda v: isinstance(v, str) and len(v) == 1, "one character"),
}
"""By kind: whether a value fits, and what is expected."""


def _check_values(value: object) -> str | None:
    if not isinstance(value, list):
        return _describe_problem(value, "a list of values")
    if None in value:
        return "found null in the list, expected values only: nulls are never looked at"
    kinds = {kind_of_value(each) for each in value}
    is_one_kind = len(kinds) < 2 and "other" not in kinds
    return None if is_one_kind else _describe_problem(value, "values of one kind")


def _check_regex(value: object) -> str | None:
    """Only problems of every dialect, as Java reads the regular expression."""
    if not isinstance(value, str):
        return _describe_problem(value, "a regular expression")
    try:
        re.compile(value)
    except re.error as error:
        faulty = error.msg.startswith(_CERTAIN_REGEX_FAULTS)
        return _describe_problem(value, f"a regular expression ({error})") if faulty else None
    return None


def _check_regexes(value: object) -> str | None:
    problem = find_argument_problem("texts", value)
    regexes = value if isinstance(value, list) else []
    return problem or next(filter(None, map(_check_regex, regexes)), None)


def _check_strftime(value: object) -> str | None:
    if not isinstance(value, str):
        return find_argument_problem("text", value)
    problem = find_strftime_problem(value)
    return f"found {problem}" if problem else None


def _check_condition(value: object) -> str | None:
    if isinstance(value, str):
        return None if value.strip() else _describe_problem(value, "a condition")
    if not isinstance(value, dict) or value.get("type") not in _CONDITION_KEYS:
        expected = f"SQL, or a mapping whose type is {', '.join(_CONDITION_KEYS)}"
        return _describe_problem(value, expected)
    keys = _CONDITION_KEYS[value["type"]]
    if set(value) != keys:
        return _describe_problem(sorted(value), f"the keys {', '.join(sorted(keys))}")
    inner = map(_check_condition, value.get("conditions", []))
    return next(filter(None, inner), None) or _check_simple_condition(value)


def _check_simple_condition(value: dict[str, object]) -> str | None:
    column = value.get("column", {"name": "x"})
    if not isinstance(column, dict) or not isinstance(column.get("name"), str):
        return _describe_problem(column, "column: {name: …}")
    if value.get("operator", "==") not in _OPERATORS:
        return _describe_problem(value["operator"], " ".join(_OPERATORS))
    is_list = isinstance(value.get("parameter"), list)
    is_in = value.get("operator") in ("IN", "NOT_IN")
    return None if is_list == is_in else _describe_problem(value, "a list for IN only")


_CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "values": _check_values,
    "regex": _check_regex,
    "regexes": _check_regexes,
    "strftime": _check_strftime,
    "condition": _check_condition,
}
