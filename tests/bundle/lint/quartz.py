"""Quartz cron: seconds, minutes, hours, day of month, month, day of week and, optionally, year."""

import re

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
FIELDS = (
    ("seconds", 0, 59, ()),
    ("minutes", 0, 59, ()),
    ("hours", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, MONTHS),
    ("day of week", 1, 7, DAYS),
    ("year", 1970, 2099, ()),
)
SPECIAL = {"day of month": r"L|LW|L-\d+|\d+W", "day of week": r"L|[1-7A-Z]+L|[1-7A-Z]+#[1-5]"}


def problem(expression: str) -> str | None:
    """What is wrong with a Quartz expression, or None.

    Exactly one of the two day fields must be `?`: that is where it differs from Unix cron.
    """
    parts = expression.upper().split()
    if len(parts) not in (6, 7):
        return f"{len(parts)} fields, not the 6 or 7 of Quartz"
    for part, (name, low, high, words) in zip(parts, FIELDS, strict=False):
        if not all(_fits(piece, name, low, high, words) for piece in part.split(",")):
            return f"{part!r} is no {name}"
    if (parts[3] == "?") == (parts[5] == "?"):
        return "exactly one of day of month and day of week must be ?"
    return None


def _fits(piece: str, name: str, low: int, high: int, words: tuple[str, ...] | list[str]) -> bool:
    if piece == "?":
        return name in SPECIAL
    if name in SPECIAL and re.fullmatch(SPECIAL[name], piece):
        return True
    span, _, step = piece.partition("/")
    if "/" in piece and not (step.isdigit() and 0 < int(step) <= high):
        return False
    ends = [] if span == "*" else span.split("-")
    numbers = [_number(end, low, words) for end in ends]
    return len(numbers) <= 2 and all(n is not None and low <= n <= high for n in numbers)


def _number(text: str, low: int, words: tuple[str, ...] | list[str]) -> int | None:
    if text in words:
        return list(words).index(text) + low
    return int(text) if text.isdigit() else None
