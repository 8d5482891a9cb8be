"""Rules that do not fit the types of their columns, found from the types alone."""

from collections.abc import Iterator, Mapping

from lakehouse.config.table import Expectation
from silver.expectations.row_condition import comparisons, structured
from silver.expectations.row_rules import columns_of
from silver.expectations.value_kinds import incomparable, kind_of_type

_TEXT_ONLY = ("_json_parseable", "_strftime_format")
_TEXT_LIKE = (
    "_regex",
    "_regex_list",
    "_like_pattern",
    "_like_pattern_list",
    "_lengths_to_equal",
    "_lengths_to_be_between",
)


def mismatch(expectation: Expectation, types: Mapping[str, str]) -> str | None:
    """Why this expectation cannot be evaluated on columns of these types; None when it can.

    `types` maps column names to Spark SQL types; columns it does not know are not looked at.
    """
    return next(_mismatches(expectation, types), None)


def _mismatches(expectation: Expectation, types: Mapping[str, str]) -> Iterator[str]:
    known = [name for name in columns_of(expectation) if name in types]
    for name in known:
        yield from _literal_mismatches(name, expectation, types)
        yield from _kind_mismatches(name, expectation, types)
    for name, value in _compared(expectation):
        if name in types and (reason := incomparable(name, types, value)):
            yield reason
    if len({kind_of_type(types[name]) for name in known}) > 1 and "in_set" not in expectation.type:
        yield f"{', '.join(f'{name} is {types[name]}' for name in known)}: they cannot be compared"


def _literal_mismatches(
    name: str, expectation: Expectation, types: Mapping[str, str]
) -> Iterator[str]:
    arguments = expectation.arguments
    bounded = expectation.type == "expect_column_values_to_be_between"
    if bounded and kind_of_type(types[name]) in ("text", "flag", "other"):
        yield f"{name} is {types[name]}, which has no order that a bound could be part of"
    bounds = [arguments.get("min_value"), arguments.get("max_value")] if bounded else []
    for value in [*bounds, *arguments.get("value_set", [])]:
        if reason := incomparable(name, types, value):
            yield reason


def _kind_mismatches(
    name: str, expectation: Expectation, types: Mapping[str, str]
) -> Iterator[str]:
    kind = kind_of_type(types[name])
    if expectation.type.endswith(_TEXT_ONLY) and kind != "text":
        yield f"{name} is {types[name]}, expected a text"
    if expectation.type.endswith(_TEXT_LIKE) and kind == "other":
        yield f"{name} is {types[name]}, which has no text"
    if expectation.type == "expect_multicolumn_sum_to_equal" and kind != "number":
        yield f"{name} is {types[name]}, expected a number"


def _compared(expectation: Expectation) -> Iterator[tuple[str, object]]:
    arguments = expectation.arguments
    yield from comparisons(structured(arguments))
    for pair in arguments.get("value_pairs_set", []):
        yield from zip(columns_of(expectation), pair, strict=True)
