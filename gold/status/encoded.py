"""Values that look like an encoding of something else: ticks, days, base64."""

import re

TICKS = (
    ("milliseconds", 10**12, 4 * 10**12),
    ("microseconds", 10**15, 4 * 10**15),
    ("nanoseconds", 10**18, 4 * 10**18),
)
"""Ticks since 1970 of the years 2001 to 2096."""
DAYS = (3_000, 40_000)
"""Days since 1970 of the years 1978 to 2079."""

_DAY_NAME = re.compile(r"(^|_)(date|day|dob|birthday|born|joined|due|on)($|_)", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{2,22}={1,2}")


def encoded_numbers(name: str, least: int, largest: int) -> tuple[str, str] | None:
    """What whole numbers between two bounds look like, and the type to declare.

    None for plain numbers. Days are told by the column's name and by size together.
    """
    for unit, low, high in TICKS:
        if low <= least <= largest <= high:
            return f"{unit} since 1970", "timestamp"
    if DAYS[0] <= least <= largest <= DAYS[1] and _DAY_NAME.search(name):
        return "days since 1970", "date"
    return None


def encoded_texts(least: str, largest: str) -> tuple[str, str] | None:
    """What texts between two bounds look like, and the type to declare; None for plain ones."""
    if all(_BASE64.fullmatch(text) and len(text) % 4 == 0 for text in (least, largest)):
        return "base64, as decimals and bytes are sent", "decimal(…) or binary"
    return None
