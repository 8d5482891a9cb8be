"""Numbers of CSV files that have a decimal comma, or something between their thousands."""

import re

from lakehouse.config.csv_options import Csv
from silver.decode.values.numbers import is_written


class NumberReader:
    """Reads values as numbers as SQL writes them; other values stay as they are.

    A text that is a number for SQL and none in the file is ambiguous, and becomes no number:
    `10.500` with a decimal comma may be ten or ten thousand.
    """

    def __init__(self, csv: Csv) -> None:
        """Read numbers as the options say."""
        groups = rf"|\d{{1,3}}(?:{re.escape(csv.thousands)}\d{{3}})+" if csv.thousands else ""
        decimals = rf"(?:{re.escape(csv.point)}(\d+))?"
        self._number = re.compile(rf"\s*([+-]?)(\d*{groups}){decimals}\s*")

    @classmethod
    def of(cls, csv: Csv) -> "NumberReader | None":
        """The reader for the options; None if numbers are written as in SQL."""
        return cls(csv) if csv.decimal_comma or csv.thousands else None

    def read(self, value: object) -> object:
        """A number in place of a text; text that nobody can take for a number otherwise."""
        if not isinstance(value, str):
            return value
        match = self._number.fullmatch(value)
        if match is not None and (match[2] or match[3]):
            whole = re.sub(r"\D", "", match[2]) or "0"
            return f"{match[1]}{whole}.{match[3]}" if match[3] else f"{match[1]}{whole}"
        return f"{value} (see source.csv)" if "." in value and is_written(value) else value
