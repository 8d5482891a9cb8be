"""JSON text as Python values that lose no digit, and back."""

import json
from typing import NoReturn

import msgspec


class NumberText(str):
    """A JSON number with a fraction or exponent, as it was written."""

    __slots__ = ()


class NotJson(ValueError):
    """Bytes or a text that is not exactly one JSON value in UTF-8."""


_DECODER = msgspec.json.Decoder(float_hook=NumberText)


def parse_json(text: bytes | str) -> object:
    """The value; whole numbers are int, other numbers `NumberText`.

    Raises:
        NotJson: the text is not exactly one JSON value in UTF-8. Control characters may stand in
            strings; NaN and Infinity are no JSON.
    """
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lenient(text)


def _lenient(text: bytes | str) -> object:
    try:
        given = text if isinstance(text, str) else text.decode()
        return json.loads(given, strict=False, parse_float=NumberText, parse_constant=_refuse)
    except (ValueError, RecursionError) as wrong:
        raise NotJson(str(wrong)) from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def json_text(value: object) -> str:
    """Compact JSON text of a value, numbers as they were written."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(str(k))}:{json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return msgspec.json.encode(value).decode()
