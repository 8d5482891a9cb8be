"""Sequence texts: one string per change that sorts in source commit order.

A sequence has up to four sections. Each section is an unsigned 64-bit number, written as 16
upper-case hex digits; sections are joined by `/`. Plain string order is then the order of the
numbers, section by section, and a prefix sorts before what it begins. This is BigQuery's form of
`_CHANGE_SEQUENCE_NUMBER` with a fixed width.
"""

import re

WIDTH = 16
MOST_SECTIONS = 4
LONGEST = MOST_SECTIONS * (WIDTH + 1) - 1
_LIMIT = 1 << 64
_TEXT_FORM = re.compile(r"[0-9A-Fa-f]{1,16}(?:/[0-9A-Fa-f]{1,16}){0,3}")


def to_section(number: int | None) -> str | None:
    """One section; None for None, a negative number or one above 2^64 - 1.

    A timestamp is given as microseconds and a date as days since 1970.
    """
    if number is None or not 0 <= number < _LIMIT:
        return None
    return f"{number:016X}"


def sequence_of(*numbers: int | None) -> str | None:
    """The sequence with one section per number; None when a number has no section."""
    return join_sections(*map(to_section, numbers))


def join_sections(*sections: str | None) -> str | None:
    """Sections in order of weight as one sequence; None when one of them is None."""
    present = [one for one in sections if one is not None]
    return "/".join(present) if len(present) == len(sections) else None


def canonical_sequence(text: str) -> str | None:
    """BigQuery's text form as the canonical form; None for any other text.

    The text form is 1 to 4 sections of 1 to 16 hex digits in either case, joined by `/`.
    """
    if not _TEXT_FORM.fullmatch(text):
        return None
    return "/".join(part.rjust(WIDTH, "0") for part in text.upper().split("/"))


def literal_sequence(start: str | list[int]) -> str:
    """The sequence that YAML writes as numbers, one section each, or in BigQuery's text form."""
    numbers = start if isinstance(start, list) else [int(part, 16) for part in start.split("/")]
    return "/".join(f"{number:016X}" for number in numbers)


def topic_sequence(stamp: int | None, partition: int | None, offset: int | None) -> str | None:
    """The sequence of a record that has no order but its place in a topic; None without an offset.

    The first section is 0, as in `arrival_sequence`. Offsets of two partitions cannot be compared,
    so the record's own time comes first: a key's changes go on in another partition, at offsets
    that may be lower, once a topic was split or got more of them.
    """
    return sequence_of(0, max(stamp or 0, 0), partition or 0, offset)


def arrival_sequence(arrival: str) -> str:
    """The sequence of a row that has no order but its arrival.

    The first section is 0, so that such rows sort before every numbered one; the next three are the
    first 48 hex digits of the order of arrival, so that each row has a place of its own.
    """
    digits = arrival[: 3 * WIDTH].ljust(3 * WIDTH, "0")
    return "/".join(("0" * WIDTH, *(digits[at : at + WIDTH] for at in range(0, 3 * WIDTH, WIDTH))))
