"""Parses and renders durations such as `10 minutes`, `1 hour 30 minutes`, `5s`, `0`."""

import re

UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
SHORT = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
EXPECTED = "a duration such as '10 minutes', '2 days' or 0"

_PART = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)


def to_seconds(text: str | int) -> int:
    """The whole seconds of a duration; a bare number is seconds.

    Raises:
        ValueError: the text is no duration, or negative.
    """
    written = str(text).strip()
    if written.isdigit():
        return int(written)
    parts = _PART.findall(written)
    if not parts or _PART.sub("", written):
        raise ValueError(EXPECTED)
    return sum(int(count) * _unit_seconds(unit.lower()) for count, unit in parts)


def render_duration(count: float | None) -> str:
    """Seconds as text in at most two units: `4.2 s`, `1 h 30 min`, `2 d 5 h`."""
    if count is None:
        return ""
    if count < 60:
        return f"{count:.1f} s" if count % 1 else f"{count:.0f} s"
    minutes, hours, days = int(count // 60), int(count // 3_600), int(count // 86_400)
    if minutes < 60:
        large, small = f"{minutes} min", f"{int(count % 60)} s"
    elif hours < 48:
        large, small = f"{hours} h", f"{minutes % 60} min"
    else:
        large, small = f"{days} d", f"{hours % 24} h"
    return large if small.startswith("0 ") else f"{large} {small}"


def _unit_seconds(unit: str) -> int:
    factor = SHORT.get(unit) or UNITS.get(unit.removesuffix("s"))
    if factor is None:
        raise ValueError(EXPECTED)
    return factor
