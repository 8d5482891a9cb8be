"""`row_condition` of an expectation: the rows that it checks, in each allowed spelling.

A text is Spark SQL, as Great Expectations passes it to `DataFrame.filter`; with the parser
`great_expectations` it is `col("a") > 1`; a mapping is a condition object (comparison, nullity,
and, or, pass_through) as Great Expectations writes it to JSON.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.storage.names import quote
from silver.expectations.literals import write_literal, write_membership

_SPOKEN = re.compile(
    r"""^\s*col\("([^"]+)"\)\s*(?:(\.notnull\(\))|(>=|<=|==|!=|>|<)\s*(.+?))\s*$""", re.I
)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_QUOTED = re.compile(r"""(["'])([^"']+)\1""")


def condition_sql(condition: Mapping[str, Any] | None) -> str:
    """SQL that is true on the rows that the expectation checks; false or null on the others."""
    if condition is None:
        return "true"
    if condition["type"] in ("and", "or"):
        inner = [f"({condition_sql(each)})" for each in condition["conditions"]]
        return f" {condition['type'].upper()} ".join(inner)
    if condition["type"] == "pass_through":
        return f"{condition['pass_through_filter']}\n"
    name = quote(condition["column"]["name"])
    if condition["type"] == "nullity":
        return f"{name} IS NULL" if condition["is_null"] else f"{name} IS NOT NULL"
    sign, parameter = condition["operator"], condition["parameter"]
    if sign in ("IN", "NOT_IN"):
        member = write_membership(name, parameter)
        return member if sign == "IN" else f"NOT {member}"
    return f"{name} {sign} {write_literal(parameter)}"


def read_condition(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The condition as a condition object whichever way it was spelt; None when there is none.

    Raises ValueError for a text that the parser named does not understand.
    """
    condition = arguments.get("row_condition")
    if not condition:
        return None
    if not isinstance(condition, str):
        return dict(condition)
    if str(arguments.get("condition_parser", "spark")).startswith("great_expectations"):
        return _read_spoken(condition)
    return {"type": "pass_through", "pass_through_filter": condition}


def list_comparisons(condition: Mapping[str, Any] | None) -> Iterator[tuple[str, object]]:
    """Every (column, literal) that the condition compares; a nullity check has the literal None."""
    if condition is None:
        return
    for inner in condition.get("conditions", []):
        yield from list_comparisons(inner)
    if "column" in condition:
        values = condition.get("parameter")
        for value in values if isinstance(values, list) else [values]:
            yield condition["column"]["name"], value


def _read_spoken(text: str) -> dict[str, Any]:
    match = _SPOKEN.match(text)
    if not match:
        raise ValueError(text)
    name, not_null, sign, literal = match.groups()
    about = {"column": {"name": name}}
    if not_null:
        return {"type": "nullity", **about, "is_null": False}
    return {"type": "comparison", **about, "operator": sign, "parameter": _read_literal(literal)}


def _read_literal(text: str) -> int | float | str:
    if quoted := _QUOTED.fullmatch(text):
        return quoted.group(2)
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text) if text.lstrip("+-").isdigit() else float(text)
