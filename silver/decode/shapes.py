"""Rows of one shape, parsed into structs that are made for the names of their fields.

A record whose row has other fields, or is no JSON that msgspec takes, is left to be read alone.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import compress
from typing import Any

import msgspec
import pyarrow as pa

from silver.decode.values.json_values import MOST_LEVELS, NumberText

_NO_FIELD = re.compile(r'[\\"\x00-\x1f\ud800-\udfff]')
_LONG = 2 * MOST_LEVELS
BROKEN = (msgspec.MsgspecError, RecursionError, UnicodeError)

Row = Any
"""A struct that `RowShape` made; its fields are f0, f1, … in the order of the names."""


def can_be_fields(names: Iterable[str]) -> bool:
    """Whether a struct can have fields of these names."""
    return _NO_FIELD.search("".join(names)) is None


class RowShape:
    """The names of a row's fields, and the struct for rows that have exactly these.

    Fields in `doubles` are read as floating point numbers or texts, all others as they are parsed.
    Rows may also come as `tuples`, in the order of the names.

    Attributes:
        values: gives the values of a row in order.
    """

    def __init__(
        self, names: Sequence[str], doubles: Collection[str] = (), tuples: bool = False
    ) -> None:
        self.names = tuple(names)
        fields = [f"f{at}" for at in range(len(self.names))]
        kinds = [float | str | None if name in doubles else object for name in self.names]
        self.struct: type[Any] = msgspec.defstruct(
            "Row",
            list(zip(fields, kinds, strict=True)),
            rename=dict(zip(fields, self.names, strict=True)),
            forbid_unknown_fields=True,
            gc=False,
        )
        self.values: Callable[[Row], tuple[Any, ...]] = tuple if tuples else msgspec.structs.astuple
        self._tuples = tuples

    def make(self, values: Sequence[object]) -> Row:
        """A row of these values."""
        return tuple(values) if self._tuples else self.struct(*values)

    def columns(self, rows: Sequence[Row]) -> list[Sequence[Any]]:
        """The values of each field."""
        return list(zip(*map(self.values, rows), strict=True)) or [()] * len(self.names)


class Parsed:
    """What records were parsed into, and which records: places in the slice in order."""

    def __init__(self, places: list[int], values: list[Any]) -> None:
        self.places = places
        self.values = values

    def only(self, fits: Sequence[object]) -> "Parsed":
        """Those for which `fits` says so."""
        if all(fits):
            return self
        return Parsed(list(compress(self.places, fits)), list(compress(self.values, fits)))


def parser_of_shape(shape: type[Any]) -> Callable[[bytes], Any]:
    """The parser of a struct; it raises what `parse_alike` takes for a record of another shape."""
    return msgspec.json.Decoder(shape, float_hook=NumberText).decode


def parse_alike(
    parse: Callable[[bytes], Any], texts: Sequence[bytes | None], places: Sequence[int]
) -> Parsed:
    """Parses the texts at these places.

    Those of another shape are left out, and those that may be nested too deeply.
    """
    given = [None if _may_be_deep(text := texts[at]) else text for at in places]
    if None in given:
        places = [at for at, text in zip(places, given, strict=True) if text is not None]
    sound = [text for text in given if text is not None]
    try:
        return Parsed(list(places), list(map(parse, sound)))
    except BROKEN:
        pass
    parsed = Parsed([], [])
    for at, text in zip(places, sound, strict=True):
        try:
            parsed.values.append(parse(text))
        except BROKEN:
            continue
        parsed.places.append(at)
    return parsed


def sound_places(raws: pa.Array, texts: Sequence[bytes | None]) -> list[int]:
    """The places of texts in UTF-8."""
    try:
        raws.cast(pa.string())
        return [at for at, text in enumerate(texts) if text is not None]
    except pa.ArrowInvalid:
        return [at for at, text in enumerate(texts) if text is not None and _is_utf8(text)]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _may_be_deep(text: bytes | None) -> bool:
    if text is None or len(text) < _LONG:
        return text is None
    return text.count(b"[") + text.count(b"{") > MOST_LEVELS
