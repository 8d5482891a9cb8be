"""What an argument of an expectation may hold, by the kinds that `expectation_names` uses."""

import re
from collections.abc import Callable
from datetime import date

from silver.expectations.row_condition import structured
from silver.expectations.text_formats import strftime_problem
from silver.expectations.value_kinds import kind_of_value, moment

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


def argument_problem(kind: str, value: object) -> str | None:
    """What is wrong with the value of an argument of this kind, in words; None when nothing is."""
    if kind in _CHOICES:
        allowed = _CHOICES[kind]
        return None if value in allowed else f"found {value!r}, expected {' or '.join(allowed)}"
    return _CHECKS[kind](value)


def _wrong(value: object, expected: str) -> str:
    return f"found {value!r}, expected {expected}"


def _text(value: object) -> str | None:
    return None if isinstance(value, str) and value else _wrong(value, "a text")


def _flag(value: object) -> str | None:
    return None if isinstance(value, bool) else _wrong(value, "true or false")


def _number(value: object) -> str | None:
    return None if kind_of_value(value) == "number" else _wrong(value, "a number")


def _count(value: object) -> str | None:
    return None if type(value) is int else _wrong(value, "a whole number")


def _share(value: object) -> str | None:
    right = isinstance(value, int | float) and kind_of_value(value) == "number" and 0 <= value <= 1
    return None if right else _wrong(value, "a share from 0 to 1")


def _bound(value: object) -> str | None:
    expected = "a number, a date or a timestamp"
    if isinstance(value, str):
        return None if _is_moment(value) else _wrong(value, expected)
    return (
        None
        if isinstance(value, date) or kind_of_value(value) == "number"
        else _wrong(value, expected)
    )


def _is_moment(value: str) -> bool:
    try:
        moment(value)
    except ValueError:
        return False
    return True


def _values(value: object) -> str | None:
    if not isinstance(value, list):
        return _wrong(value, "a list of values")
    if None in value:
        return "found null in the list, expected values only: nulls are never looked at"
    kinds = sorted({kind_of_value(each) for each in value})
    return None if len(kinds) < 2 and "other" not in kinds else _wrong(value, "values of one kind")


def _texts(value: object) -> str | None:
    right = isinstance(value, list) and value and all(isinstance(each, str) for each in value)
    return None if right else _wrong(value, "a list of texts, at least one")


def _pairs(value: object) -> str | None:
    right = (
        isinstance(value, list)
        and value
        and all(isinstance(p, list) and len(p) == 2 for p in value)
    )
    return None if right else _wrong(value, "a list of pairs such as [[1, a], [2, b]]")


def _mapping(value: object) -> str | None:
    return None if isinstance(value, dict) else _wrong(value, "a mapping")


def _letter(value: object) -> str | None:
    return None if isinstance(value, str) and len(value) == 1 else _wrong(value, "one character")


def _regex(value: object) -> str | None:
    """Only what is wrong in every dialect: the regular expression will be read by Java."""
    if not isinstance(value, str):
        return _wrong(value, "a regular expression")
    try:
        re.compile(value)
    except re.error as error:
        faulty = error.msg.startswith(_CERTAIN_REGEX_FAULTS)
        return _wrong(value, f"a regular expression ({error})") if faulty else None
    return None


def _regexes(value: object) -> str | None:
    wrong = _texts(value)
    if wrong or not isinstance(value, list):
        return wrong
    return next((problem for each in value if (problem := _regex(each))), None)


def _strftime(value: object) -> str | None:
    if not isinstance(value, str):
        return _text(value)
    problem = strftime_problem(value)
    return f"found {problem}" if problem else None


def _condition(value: object) -> str | None:
    if isinstance(value, str):
        return None if value.strip() else _wrong(value, "a condition")
    if not isinstance(value, dict) or value.get("type") not in _CONDITION_KEYS:
        return _wrong(value, f"SQL, or a mapping whose type is {', '.join(_CONDITION_KEYS)}")
    if set(value) != _CONDITION_KEYS[value["type"]]:
        return _wrong(
            sorted(value), f"the keys {', '.join(sorted(_CONDITION_KEYS[value['type']]))}"
        )
    inner = [_condition(each) for each in value.get("conditions", [])]
    return next((problem for problem in inner if problem), None) or _simple_condition(value)


def _simple_condition(value: dict[str, object]) -> str | None:
    column = value.get("column", {"name": "x"})
    if not isinstance(column, dict) or not isinstance(column.get("name"), str):
        return _wrong(column, "column: {name: …}")
    if value.get("operator", "==") not in _OPERATORS:
        return _wrong(value["operator"], " ".join(_OPERATORS))
    listed = isinstance(value.get("parameter"), list)
    return (
        None
        if listed == (value.get("operator") in ("IN", "NOT_IN"))
        else _wrong(value, "a list for IN only")
    )


def condition_problem(arguments: dict[str, object]) -> str | None:
    """Why a condition's text cannot be read by the parser named with it; None when it can."""
    try:
        structured(arguments)
    except ValueError as error:
        return _wrong(str(error), 'such as col("a") > 1, or col("a").notnull()')
    return None


_CHECKS: dict[str, Callable[[object], str | None]] = {
    "any": lambda _: None,
    "text": _text,
    "flag": _flag,
    "number": _number,
    "count": _count,
    "share": _share,
    "bound": _bound,
    "values": _values,
    "texts": _texts,
    "pairs": _pairs,
    "mapping": _mapping,
    "letter": _letter,
    "regex": _regex,
    "regexes": _regexes,
    "strftime": _strftime,
    "condition": _condition,
}
