"""Exact numbers from Debezium's encodings.

`numeric(p,s)` comes as base64 of a big-endian two's complement integer whose scale is told
elsewhere, `numeric` without a scale as `{"scale":n,"value":base64}`.
"""

import base64
import re
from collections.abc import Callable
from decimal import Context, Decimal
from functools import partial

from silver.decode.types import Misfit

LONGEST = 1024
_WIDEST_SCALE = 16384
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_WRITTEN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?Infinity")
_EXACT = Context(prec=_WIDEST_SCALE + 4 * LONGEST)


def packed_integer(value: object) -> int:
    """The whole number in base64.

    Raises:
        Misfit: the value is no base64, empty, or over 1 kB.
    """
    if not isinstance(value, str):
        raise Misfit(value)
    try:
        octets = base64.b64decode(value, validate=True)
    except ValueError:
        raise Misfit(value) from None
    if not 0 < len(octets) <= LONGEST:
        raise Misfit(value)
    return int.from_bytes(octets, "big", signed=True)


def scaler(scale: int) -> Callable[[int], Decimal]:
    """A function that gives a whole number so many decimals, exactly."""
    return partial(_EXACT.multiply, Decimal((0, (1,), -scale)))


def scaled_text(integer: int, scale: int) -> str:
    """The number with so many decimals as people write it: 123.45."""
    if scale <= 0:
        return str(integer) + "0" * -scale
    digits = str(abs(integer)).rjust(scale + 1, "0")
    return f"{'-' if integer < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def is_variable(value: object) -> bool:
    """Whether a value is a number of variable scale as Debezium writes it."""
    return isinstance(value, dict) and value.keys() == {"scale", "value"}


def variable_parts(value: object) -> tuple[int, int]:
    """The whole number and the scale of a number of variable scale.

    Raises:
        Misfit: the value is none.
    """
    if not isinstance(value, dict):
        raise Misfit(value)
    scale, packed = value.get("scale"), value.get("value")
    if type(scale) is not int or abs(scale) > _WIDEST_SCALE:
        raise Misfit(value)
    return packed_integer(packed), scale


def is_base64(text: str) -> bool:
    """Whether text can be base64 of a number; `1.5`, `-5` and `NaN` cannot."""
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


def is_written(text: str) -> bool:
    """Whether text can be a number as people write it: `12`, `-0.5`, `1E+3`."""
    return _WRITTEN.fullmatch(text) is not None


def form_of(text: str) -> str | None:
    """How a decimal's text is written: `base64` or `plain`; None for both or neither."""
    packed, written = is_base64(text), is_written(text)
    if packed == written:
        return None
    return "base64" if packed else "plain"


def can_be_both(text: str) -> bool:
    """Whether text can be base64 of one number and, as it is written, another number."""
    return is_base64(text) and is_written(text)
