"""Rules that do not fit the types of their columns, found from the types alone."""

from collections.abc import Collection, Iterator, Mapping

from lakehouse.config.table import Expectation
from silver.expectations.literals import is_moment, kind_of_type, kind_of_value
from silver.expectations.row_condition import list_comparisons, read_condition
from silver.expectations.rules import EXPECTATIONS, columns_of

_ALL = ("number", "text", "flag", "time", "other")
_NEEDS: Mapping[str, tuple[Collection[str], str]] = {
    "text": (("text",), "expected a text"),
    "texty": (("number", "text", "flag", "time"), "which has no text"),
    "number": (("number",), "expected a number"),
    "ordered": (("number", "time"), "which has no order that a bound could be part of"),
    **dict.fromkeys(("any", "alike", ""), (_ALL, "")),
}
"""By a rule's `needs`: the kinds of types that fit, and the message for others."""


def find_mismatch(expectation: Expectation, types: Mapping[str, str]) -> str | None:
    """Why this expectation cannot be evaluated on columns of these types; None when it can.

    `types` maps column names to Spark SQL types; other columns are not checked.
    """
    return next(_find_mismatches(expectation, types), None)


def _find_mismatches(expectation: Expectation, types: Mapping[str, str]) -> Iterator[str]:
    columns = [name for name in columns_of(expectation) if name in types]
    needs = EXPECTATIONS[expectation.type].needs
    kinds, problem = _NEEDS[needs]
    for name in columns:
        if kind_of_type(types[name]) not in kinds:
            yield f"{name} is {types[name]}, {problem}"
    for name, value in _list_compared(expectation):
        if name in types and not _is_comparable(types[name], value):
            yield f"{name} is {types[name]}, which cannot be compared with {value!r}"
    if needs == "alike":
        yield from _find_different_kinds({name: types[name] for name in columns})


def _find_different_kinds(types: Mapping[str, str]) -> Iterator[str]:
    if len(set(map(kind_of_type, types.values()))) > 1:
        named = ", ".join(f"{name} is {sql_type}" for name, sql_type in types.items())
        yield f"{named}: they cannot be compared"


def _is_comparable(sql_type: str, value: object) -> bool:
    kind = kind_of_type(sql_type)
    is_same = value is None or kind_of_value(value) == kind
    return is_same or (kind == "time" and is_moment(value))


def _list_compared(expectation: Expectation) -> Iterator[tuple[str, object]]:
    """Every column with a literal that the expectation or its condition compares it with."""
    arguments, columns = expectation.arguments, columns_of(expectation)
    bounds = ("min_value", "max_value")
    literals = [arguments.get(name) for name in bounds] if _is_ordered(expectation) else []
    for value in [*literals, *arguments.get("value_set", [])]:
        yield from ((name, value) for name in columns)
    yield from list_comparisons(read_condition(arguments))
    for pair in arguments.get("value_pairs_set", []):
        yield from zip(columns, pair, strict=True)


def _is_ordered(expectation: Expectation) -> bool:
    return EXPECTATIONS[expectation.type].needs == "ordered"
