"""How numbers and times are written as text, for people and as JSON that loses nothing."""

NTZ_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
TIME_FORMAT = NTZ_FORMAT + "XXX"
JSON_OPTIONS = {
    "timestampFormat": TIME_FORMAT,
    "timestampNTZFormat": NTZ_FORMAT,
    "ignoreNullFields": "false",
}
"""Options of Spark's `to_json`: times with all their digits, nulls included."""


def counted(count: int, noun: str) -> str:
    """The number and the noun in the form that fits: `1 table`, `2,000 tables`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def count_off(text: str, at: int, of: int) -> str:
    """What is done now, and which of how many that is, where there are several."""
    return text if of == 1 else f"{text}, {at:,} of {of:,}"


def read_columns(text: str) -> tuple[tuple[str, str, str], ...]:
    """The columns of a text, `name | type | meaning` a line each: three texts of each column.

    A line that begins with blanks continues the one before.
    """
    lines = text.replace("\n    ", " ").strip().splitlines()
    columns = (line.split(" | ", 2) for line in lines)
    return tuple((name, kind, meaning) for name, kind, meaning in columns)
