"""Rows of text laid out for a terminal: a grid where it fits, else one block per record.

A column of long texts is shortened with `…`; numbers and times are never shortened. Where the
columns do not fit at their least widths, each record becomes a block with one line per column.
"""

import itertools
import re
import textwrap
from collections.abc import Sequence
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size

Row: TypeAlias = Sequence[str | None]

GAP = 2
LEAST_TEXT = 12
"""A text column that is shortened keeps at least so many characters."""
LONGEST_NAME = 32
"""Longer column names are cut in a block."""

_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?([eE][+-]?\d+)?")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.]+(Z|[+-]\d{2}:\d{2})?)?")
_ZEROS = re.compile(r"(?<=:\d{2})\.0{6}((?:Z|[+-]\d{2}:\d{2})?)$")
WRAPPED = frozenset(
    ("expectation", "rule", "reason", "outcome", "state", "do", "effect", "because")
)
_CONTROL = {code: "·" for code in (*range(32), *range(127, 160))} | {9: " ", 10: "⏎", 13: " "}


def lay_out(columns: Sequence[str], rows: Sequence[Row], width: int | None) -> list[str]:
    """The lines of a table, none wider than `width` cells; without a width nothing is shortened.

    A null is an empty place, an empty text `""`. Where there is a width, times lose the zeros of a
    second's fractions, and columns in WRAPPED go on in the lines below. Control characters are
    replaced, so that a value cannot move the cursor or break a line.
    """
    if not columns:
        return []
    names = [name.translate(_CONTROL) for name in columns]
    texts = [["" if v is None else v.translate(_CONTROL) or '""' for v in row] for row in rows]
    texts = texts if width is None else _without_zeros(texts)
    sizes = _find_widths(names, texts, width)
    if sizes is None:
        return _render_blocks(names, texts, width or 80)
    return _render_grid(names, texts, sizes)


def cut_to_width(text: str, width: int) -> str:
    """The text in at most `width` cells, with `…` in place of what does not fit."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def _without_zeros(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows, without the six zeros at the end of times where a column has them in all times."""
    columns = [list(column) for column in zip(*texts, strict=True)]
    for column in columns:
        if all(_ZEROS.search(text) for text in column if text):
            column[:] = [_ZEROS.sub(r"\1", text) for text in column]
    return [list(row) for row in zip(*columns, strict=True)]


def _find_widths(
    names: Sequence[str], texts: Sequence[Sequence[str]], width: int | None
) -> list[int] | None:
    """A width per column; None where the columns do not fit side by side."""
    columns = list(zip(*texts, strict=True)) or [()] * len(names)
    heads = [cell_len(name) for name in names]
    natural = [max(map(cell_len, [n, *c])) for n, c in zip(names, columns, strict=True)]
    if width is None:
        return natural
    given = zip(columns, heads, natural, strict=True)
    least = [size if _is_rigid(c) else min(size, max(LEAST_TEXT, h)) for c, h, size in given]
    room = width - GAP * (len(names) - 1)
    for most in range(max(natural), -1, -1):
        sizes = [max(low, min(high, most)) for low, high in zip(least, natural, strict=True)]
        if sum(sizes) <= room:
            return sizes
    return None


def _is_rigid(values: Sequence[str]) -> bool:
    """Whether all values are numbers or times, of which a part would mean something else."""
    given = [value for value in values if value]
    return all(_NUMBER.fullmatch(v) or _TIME.fullmatch(v) for v in given) and bool(given)


def _render_grid(
    names: Sequence[str], texts: Sequence[Sequence[str]], sizes: Sequence[int]
) -> list[str]:
    right = [
        bool(texts) and all(_NUMBER.fullmatch(row[at]) for row in texts if row[at])
        for at in range(len(names))
    ]

    def line(row: Sequence[str]) -> str:
        return (" " * GAP).join(map(_pad_cell, row, sizes, right)).rstrip()

    head = [line(names), (" " * GAP).join("─" * size for size in sizes)]
    return [*head, *(line(part) for row in texts for part in _wrap_row(names, row, sizes))]


def _wrap_row(
    names: Sequence[str], row: Sequence[str], sizes: Sequence[int]
) -> list[tuple[str, ...]]:
    """A row in lines: cells of columns in WRAPPED are broken at their width."""
    cells = [
        textwrap.wrap(text, size) or [text] if name in WRAPPED and size else [text]
        for name, text, size in zip(names, row, sizes, strict=True)
    ]
    return list(itertools.zip_longest(*cells, fillvalue=""))


def _pad_cell(text: str, size: int, to_right: bool) -> str:
    fitted = cut_to_width(text, size)
    space = " " * (size - cell_len(fitted))
    return space + fitted if to_right else fitted + space


def _render_blocks(names: Sequence[str], texts: Sequence[Sequence[str]], width: int) -> list[str]:
    longest = min(LONGEST_NAME, width // 2, max(map(cell_len, names)))
    lines: list[str] = []
    for number, row in enumerate(texts, 1):
        head = f"── {number} "
        lines.append(head + "─" * (width - cell_len(head)))
        for name, text in zip(names, row, strict=True):
            said = _pad_cell(name, longest, False) + " " * GAP + text
            lines.append(cut_to_width(said.rstrip(), width))
    return lines
