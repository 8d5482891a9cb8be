"""Numbers and times as text, for people and as lossless JSON; tables' columns from text."""

from typing import NamedTuple

NTZ_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
TIME_FORMAT = NTZ_FORMAT + "XXX"
EXACT_TIMES = {"timestampFormat": TIME_FORMAT, "timestampNTZFormat": NTZ_FORMAT}
"""Options of Spark's `to_json`: times with all their digits; its own default cuts them to three."""
JSON_OPTIONS = EXACT_TIMES | {"ignoreNullFields": "false"}
"""The same, nulls included."""


def render_count(count: int, noun: str) -> str:
    """A number and its noun in singular or plural: `1 table`, `2,000 tables`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_off(text: str, at: int, of: int) -> str:
    """The text with its position, such as `, 2 of 5`, if there are several."""
    return text if of == 1 else f"{text}, {at:,} of {of:,}"


class DeclaredColumn(NamedTuple):
    """A column of a table that the lakehouse makes: its name, Spark SQL type and comment."""

    name: str
    type: str
    comment: str


def parse_columns(text: str) -> tuple[DeclaredColumn, ...]:
    """Parses lines of `name | type | comment`; a line that begins with blanks continues another."""
    lines = text.replace("\n    ", " ").strip().splitlines()
    return tuple(DeclaredColumn(*line.split(" | ", 2)) for line in lines)
