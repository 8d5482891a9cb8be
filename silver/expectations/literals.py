"""Values of YAML: their kinds, and how Spark SQL writes them.

Spark refuses (or, row by row, fails at) a comparison of a number with a text. Columns and literals
are therefore sorted into five kinds before a rule becomes a condition.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Literal

from lakehouse.config.column_types import is_type, read_type
from lakehouse.storage import names

Kind = Literal["number", "text", "flag", "time", "other"]

_KINDS_OF_TYPES: Mapping[str, Kind] = {
    **dict.fromkeys(("byte", "short", "integer", "long", "float", "double", "decimal"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "time"),
    **{"string": "text", "boolean": "flag"},
}


def kind_of_type(sql_type: str) -> Kind:
    """The kind of a column, from its Spark SQL type as DDL or `simpleString()` writes it."""
    plain = sql_type.partition(" collate ")[0]
    return _KINDS_OF_TYPES.get(read_type(plain).name, "other") if is_type(plain) else "other"


def kind_of_value(value: object) -> Kind:
    """The kind of a literal as YAML gives it."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, date):
        return "time"
    return "text" if isinstance(value, str) else "other"


def read_bound(value: object) -> object:
    """A bound as Great Expectations understands it: numbers as doubles, ISO texts as times.

    A timestamp without a zone is in UTC. Raises ValueError for any other text.
    """
    if isinstance(value, str):
        day_length = len("2024-01-31")
        parse = date.fromisoformat if len(value) == day_length else datetime.fromisoformat
        return read_bound(parse(value))
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return float(value) if isinstance(value, int | float) else value


def is_moment(value: object) -> bool:
    """Whether a value is the ISO text of a date or a timestamp."""
    try:
        return isinstance(value, str) and read_bound(value) is not None
    except ValueError:
        return False


def write_literal(value: object) -> str:
    """A value as a literal of Spark SQL; a time without a zone is one of this machine's zone."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, float):
        return f"double('{value!r}')"
    if isinstance(value, datetime):
        return f"TIMESTAMP_LTZ'{value.astimezone(timezone.utc).isoformat()}'"
    return f"DATE'{value}'" if isinstance(value, date) else names.literal(str(value))


def write_membership(column: str, values: Sequence[object]) -> str:
    """SQL of whether a column has one of the values."""
    return f"({column} IN ({', '.join(map(write_literal, values))}))" if values else "false"
