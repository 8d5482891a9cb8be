"""Parses rows that all have the same fields into structs that are made for these fields.

Texts with other fields, or that msgspec does not parse, are left out and decoded one by one.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from silver.decode.values.json_values import MOST_LEVELS, NumberText

_NO_FIELD_NAME = re.compile(r'[\\"\x00-\x1f\ud800-\udfff]')
_SHORTEST_DEEP = 2 * MOST_LEVELS
_PARSE_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError)

Row = Any
"""A struct of a `RowShape`, with the fields f0, f1, … in the order of the names; or a tuple."""


def can_be_fields(names: Iterable[str]) -> bool:
    """Whether a struct can have fields of these names."""
    return _NO_FIELD_NAME.search("".join(names)) is None


class RowShape:
    """The names of a row's fields, and the struct for rows that have exactly these.

    Fields in `doubles` are floats or texts, all others as they are parsed. With `tuples`, rows are
    tuples of values in the order of the names, and no structs. A `loose` row may have more fields.

    Attributes:
        values_of: from a row to its values in the order of the names.
    """

    def __init__(
        self,
        names: Sequence[str],
        doubles: Collection[str] = (),
        tuples: bool = False,
        loose: bool = False,
    ) -> None:
        self.names = tuple(names)
        fields = [f"f{at}" for at in range(len(self.names))]
        kinds = [float | str | None if name in doubles else object for name in self.names]
        self.struct: type[Any] = msgspec.defstruct(
            "Row",
            list(zip(fields, kinds, strict=True)),
            rename=dict(zip(fields, self.names, strict=True)),
            forbid_unknown_fields=not loose,
            gc=False,
        )
        self.values_of: Callable[[Row], tuple[Any, ...]]
        self.values_of = tuple if tuples else msgspec.structs.astuple
        self._tuples = tuples

    def make(self, values: Sequence[object]) -> Row:
        """A row of these values."""
        return tuple(values) if self._tuples else self.struct(*values)

    def columns(self, rows: Sequence[Row]) -> list[Sequence[Any]]:
        """The values of each field."""
        return list(zip(*map(self.values_of, rows), strict=True)) or [()] * len(self.names)


class Parsed(NamedTuple):
    """What records were parsed into, and the places of the records in their slice, in order."""

    places: list[int]
    values: list[Any]

    def only(self, fits: Sequence[object]) -> "Parsed":
        """The values whose `fits` is true."""
        if all(fits):
            return self
        return Parsed(list(compress(self.places, fits)), list(compress(self.values, fits)))


def parser_of_shape(shape: type[Any]) -> Callable[[bytes], Any]:
    """The parser of a struct, for `parse_alike`."""
    return msgspec.json.Decoder(shape, float_hook=NumberText).decode


def parse_alike(
    parse: Callable[[bytes], Any], texts: Sequence[bytes | None], places: Sequence[int]
) -> Parsed:
    """Parses the texts at these places.

    Texts of another shape are left out, and those that may be nested too deeply.
    """
    given = [text for at in places if (text := texts[at]) is not None]
    if len(given) < len(places) or max(map(len, given), default=0) >= _SHORTEST_DEEP:
        places = [at for at in places if not _may_be_deep(texts[at])]
        given = [text for at in places if (text := texts[at]) is not None]
    values: list[Any] = []
    failed: list[int] = []
    waiting = iter(given)
    while len(values) + len(failed) < len(given):
        try:
            values.extend(map(parse, waiting))  # keeps those before a text that does not parse
        except _PARSE_ERRORS:
            failed.append(len(values) + len(failed))
    if failed:
        gone = {*failed}
        places = [at for nth, at in enumerate(places) if nth not in gone]
    return Parsed(list(places), values)


def find_utf8_places(raws: pa.Array, texts: Sequence[bytes | None]) -> list[int]:
    """The places of texts in UTF-8; `texts` are the values of the binary column `raws`."""
    try:
        raws.cast(pa.string())
        if not raws.null_count:
            return list(range(len(raws)))
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
    """Whether a text may have more than `MOST_LEVELS` levels; so may one that is not there."""
    if text is None or len(text) < _SHORTEST_DEEP:
        return text is None
    return text.count(b"[") + text.count(b"{") > MOST_LEVELS
