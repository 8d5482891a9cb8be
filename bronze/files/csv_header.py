"""The names in the header of a CSV file, as bronze and `init` read them."""

import csv
from collections.abc import Sequence


def split_cells(header: str, sep: str, quote: str) -> list[str]:
    """The cells of a header line."""
    if len(sep) > 1:
        return [cell.strip(quote) for cell in header.split(sep)]
    if not quote:
        return header.split(sep)
    reader = csv.reader([header], delimiter=sep, quotechar=quote)
    return next(reader, [])


def has_blanks(cells: Sequence[str]) -> bool:
    """Whether blanks follow the separators, which are then no part of values either."""
    return len(cells) > 1 and all(cell[:1] == " " for cell in cells[1:])


def unnamed_column(at: int) -> str:
    """The name of a column that has none in the header."""
    return f"_c{at}"


def clean_name(cell: str, quote: str) -> str:
    """A name without its quotes, and without blanks inside and outside of them."""
    name = cell.strip()
    quoted = bool(quote) and len(name) > 1 and name[0] == name[-1] == quote
    return name[1:-1].replace(quote * 2, quote).strip() if quoted else name
