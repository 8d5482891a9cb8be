"""Which values can be compared with which: a rule that Spark could not evaluate is found first.

Spark refuses (or, row by row, fails at) a comparison of a number with a text. Columns and literals
are therefore sorted into five kinds before a rule becomes a condition.
"""

from collections.abc import Mapping
from datetime import date, datetime, timezone
from typing import Literal

Kind = Literal["number", "text", "flag", "time", "other"]

_NUMBERS = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "long",
    "float",
    "double",
    "decimal",
    "byte",
    "short",
)


def kind_of_type(sql_type: str) -> Kind:
    """The kind of a column, from its Spark SQL type as DDL or `simpleString()` writes it."""
    word = sql_type.strip().lower()
    if word.startswith(_NUMBERS) or word == "dec":
        return "number"
    if word.startswith(("string", "char", "varchar")):
        return "text"
    if word.startswith("boolean"):
        return "flag"
    return "time" if word.startswith(("date", "timestamp")) else "other"


def kind_of_value(value: object) -> Kind:
    """The kind of a literal as YAML gives it."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, date):
        return "time"
    return "text" if isinstance(value, str) else "other"


def bound(value: object) -> object:
    """A bound as Great Expectations understands it: numbers as doubles, ISO texts as times.

    A timestamp without a zone is in UTC. Raises ValueError for any other text.
    """
    if isinstance(value, str):
        return bound(moment(value))
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return float(value) if isinstance(value, int | float) else value


def moment(text: str) -> date:
    """A date or timestamp from its ISO text; raises ValueError when it is neither."""
    day_length = len("2024-01-31")
    return date.fromisoformat(text) if len(text) == day_length else datetime.fromisoformat(text)


def incomparable(column: str, types: Mapping[str, str], value: object) -> str | None:
    """Why a column cannot be compared with a literal, in words; None when it can."""
    kind = kind_of_type(types[column])
    if value is None or kind_of_value(value) == kind or (kind == "time" and _is_moment(value)):
        return None
    return f"{column} is {types[column]}, which cannot be compared with {value!r}"


def _is_moment(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        moment(value)
    except ValueError:
        return False
    return True
