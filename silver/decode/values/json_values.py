"""JSON parsed without losing a digit, and JSON values as text again.

A text counts as JSON only when all of it is one JSON value in UTF-8: nothing behind it, no single
quotes, no NaN, at most `MOST_LEVELS` levels of nesting.

Parsed values are None, bool, int (of any size), `NumberText` (numbers with a fraction or exponent),
str, list and dict. Of a member that an object has twice, the last one counts.
"""

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

import msgspec

MOST_LEVELS = 500
"""Objects and arrays inside each other; below the recursion limit of every Python we run on."""

_Shape = TypeVar("_Shape")
_LEVELS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{\]}]', re.DOTALL)


class NotJson(ValueError):
    """A text that is no JSON, or not of the expected shape."""


class NumberText(str):
    """A JSON number with a fraction or an exponent, as it is written."""

    __slots__ = ()


def valid_text(text: str) -> str:
    """The text as UTF-8 has it; half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def parse_json(text: bytes | str) -> object:
    """The value of a JSON text, in whose strings control characters may stand as they are.

    Raises:
        NotJson: the text is not one JSON value.
    """
    try:
        given = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        check_levels(given)
        return _parse_any(given)
    except NotJson:
        return _parse_lenient(text)


def check_levels(text: bytes) -> None:
    """Raises `NotJson` for a text of more than `MOST_LEVELS` levels of nesting."""
    if len(text) < 2 * MOST_LEVELS or text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return
    level = 0
    for match in _LEVELS.finditer(text):
        mark = match[0]
        if mark in b"[{":
            level += 1
            if level > MOST_LEVELS:
                raise NotJson(f"more than {MOST_LEVELS} levels of nesting")
        elif mark in b"]}":
            level -= 1


def parser_of(shape: type[_Shape]) -> Callable[[bytes], _Shape]:
    """A function that parses JSON texts of one shape, and raises `NotJson` for all others.

    Control characters must be escaped. `shape` is a type as msgspec takes it, such as a
    `msgspec.Struct`. Members that the shape does not name are skipped, but must be JSON too. Levels
    of nesting are for the caller to check.
    """
    decode = msgspec.json.Decoder(shape, float_hook=NumberText).decode

    def parse(text: bytes) -> _Shape:
        try:
            if not text.isascii():
                text.decode()  # msgspec looks at no encoding in what it skips
            return decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise NotJson(str(error)) from None

    return parse


def json_text(value: object) -> str:
    """A parsed value as compact JSON, numbers as they were written."""
    return _ENCODER.encode(value).decode()


def text_of(value: object) -> str:
    """A parsed value other than null as text: text without its quotes, all else as JSON."""
    return str(value) if isinstance(value, str) else json_text(value)


def special_text(value: float) -> str:
    """A number that is none, or infinite, as JSON's texts have it."""
    return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"


def _parse_lenient(text: bytes | str) -> object:
    try:
        given = text if isinstance(text, str) else text.decode()
        check_levels(given.encode("utf-8", "replace"))
        return json.loads(
            given, strict=False, parse_float=NumberText, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"found {name}, which is no JSON")


def _as_json(value: object) -> msgspec.Raw:
    if isinstance(value, NumberText):
        return msgspec.Raw(value.encode())
    raise TypeError(f"found {type(value).__name__}, expected a JSON value")


_ENCODER = msgspec.json.Encoder(enc_hook=_as_json)
_parse_any = parser_of(object)
