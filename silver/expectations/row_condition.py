"""`row_condition` of an expectation: which rows it is about, in each of the spellings allowed.

A text is Spark SQL, as Great Expectations passes it to `DataFrame.filter`; with the parser
`great_expectations` it is `col("a") > 1`; a mapping is a condition object (comparison, nullity,
and, or, pass_through) as Great Expectations writes it to JSON.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.storage.names import quote

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SPOKEN = re.compile(
    r"""^\s*col\("([^"]+)"\)\s*(?:(\.notnull\(\))|(>=|<=|==|!=|>|<)\s*(.+?))\s*$""", re.I
)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_QUOTED = re.compile(r"""(["'])([^"']+)\1""")


def row_condition(arguments: Mapping[str, Any]) -> Column:
    """True on the rows that the expectation is about; false or null on the others."""
    condition = structured(arguments)
    return F.lit(True) if condition is None else _column(condition)


def structured(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The condition as a condition object whichever way it was spelt; None when there is none.

    Raises ValueError for a text that the parser named does not understand.
    """
    condition = arguments.get("row_condition")
    if not condition:
        return None
    if isinstance(condition, str):
        spoken = str(arguments.get("condition_parser", "spark")).startswith("great_expectations")
        return (
            _spoken(condition)
            if spoken
            else {"type": "pass_through", "pass_through_filter": condition}
        )
    return dict(condition)


def comparisons(condition: Mapping[str, Any] | None) -> Iterator[tuple[str, object]]:
    """Every (column, literal) that the condition compares; a nullity check has the literal None."""
    if condition is None:
        return
    for inner in condition.get("conditions", []):
        yield from comparisons(inner)
    if "column" in condition:
        values = condition.get("parameter")
        for value in values if isinstance(values, list) else [values]:
            yield condition["column"]["name"], value


def sql_text(arguments: Mapping[str, Any]) -> str | None:
    """The condition's Spark SQL text where it was written as one, else None."""
    condition = structured(arguments)
    return condition.get("pass_through_filter") if condition else None


def _spoken(text: str) -> dict[str, Any]:
    match = _SPOKEN.match(text)
    if not match:
        raise ValueError(text)
    name, not_null, sign, literal = match.groups()
    if not_null:
        return {"type": "nullity", "column": {"name": name}, "is_null": False}
    return {
        "type": "comparison",
        "column": {"name": name},
        "operator": sign,
        "parameter": _literal(literal),
    }


def _literal(text: str) -> int | float | str:
    if quoted := _QUOTED.fullmatch(text):
        return quoted.group(2)
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _column(condition: Mapping[str, Any]) -> Column:
    if condition["type"] in ("and", "or"):
        combine = operator.and_ if condition["type"] == "and" else operator.or_
        return reduce(combine, [_column(inner) for inner in condition["conditions"]])
    if condition["type"] == "pass_through":
        return F.expr(condition["pass_through_filter"])
    return _simple(F.col(quote(condition["column"]["name"])), condition)


def _simple(column: Column, condition: Mapping[str, Any]) -> Column:
    if condition["type"] == "nullity":
        return column.isNull() if condition["is_null"] else column.isNotNull()
    sign, parameter = condition["operator"], condition["parameter"]
    if sign in ("IN", "NOT_IN"):
        return column.isin(parameter) if sign == "IN" else ~column.isin(parameter)
    compared: Column = _COMPARISONS[sign](column, F.lit(parameter))
    return compared
