"""Durations as people write them: `10 minutes`, `2 days`, `1 hour 30 minutes`, `5s`, `0`."""

import re

UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
SHORT = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
EXPECTED = "a duration such as '10 minutes', '2 days' or 0"

_PART = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def seconds(text: str | int) -> int:
    """Whole seconds of a duration; a bare number is seconds.

    Raises:
        ValueError: anything else, and negative numbers.
    """
    written = str(text).strip()
    if written.isdigit():
        return int(written)
    parts = _PART.findall(written)
    if not parts or _PART.sub("", written):
        raise ValueError(EXPECTED)
    return sum(int(count) * _unit(unit.lower()) for count, unit in parts)


def _unit(unit: str) -> int:
    found = SHORT.get(unit) or UNITS.get(unit.removesuffix("s"))
    if found is None:
        raise ValueError(EXPECTED)
    return found
