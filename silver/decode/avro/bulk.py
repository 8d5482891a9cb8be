"""Avro's binary encoding, read for many records of one schema at once.

Each field is read of all records before the next one, by a few operations of numpy, which costs
less than a tenth of reading record by record. A broken record does not affect the others.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Values = Sequence[object]
Schemas = dict[str, dict[str, Any]]

_PADDING = 64
_LONGEST_NUMBER = 10
_LONGEST_NAME = 64
_SIZED = {"float": "<f4", "double": "<f8", "boolean": "?"}
"""Kinds whose values have one size each, as types of numpy."""


class Unsupported(ValueError):
    """A schema with types that are read record by record: arrays, maps, types within themselves."""


class RecordType(NamedTuple):
    """What the records of a schema become.

    `make` takes the values of `fields`, as far as the schema has them, and how many records there
    are; of all fields where `fields` is None. `inner` are the types of fields that are records.
    """

    make: Callable[[Mapping[str, Values], int], Values]
    fields: Collection[str] | None = None
    inner: "Mapping[str, RecordType]" = MappingProxyType({})


def _build_dictionaries(columns: Mapping[str, Values], count: int) -> Values:
    empty: dict[str, object] = dict.fromkeys(columns)
    rows = [empty.copy() for _ in range(count)]
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


def object_type(
    make: Callable[..., object], fields: Sequence[str], **inner: RecordType
) -> RecordType:
    """Records become objects: `make` gets the values of `fields`, None for a missing one."""

    def objects(columns: Mapping[str, Values], count: int) -> Values:
        values = [columns.get(name, repeat(None, count)) for name in fields]
        return list(map(make, *values))

    return RecordType(objects, fields, inner)


ROW = RecordType(_build_dictionaries)
"""Records become dictionaries."""


def read_records(
    schema: object, type: RecordType, records: Sequence[bytes], start: int
) -> list[object]:
    """The value of each record, which begin at `start`; None for one that is not of the schema.

    Args:
        schema: as `fastavro.parse_schema` gives it.
        type: what the outermost record becomes.
        records: the bytes.
        start: where the value begins in each.

    Raises:
        Unsupported: values of the schema are not read so.
        UnicodeError: some text is not in UTF-8.
    """
    values, broken = read_columns(schema, type, records, start)
    return [None if b else v for b, v in zip(broken, values, strict=True)]


def read_columns(
    schema: object, type: RecordType, records: Sequence[bytes], start: int
) -> tuple[Values, list[bool]]:
    """What `type` makes of all records together, and which records are not of the schema.

    The arguments and errors are those of `read_records`.
    """
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(sizes)
    reader = _Reader(b"".join([*records, bytes(_PADDING)]), ends - sizes + start)
    values = reader.read(schema, type)
    broken: list[bool] = (reader.broken | (reader.at != ends)).tolist()
    return values, broken


class _Reader:
    """Reads the values at the places of some records, and moves these places behind them.

    Attributes:
        at: the place of each record.
        broken: whether what a record has is not of the schema.
    """

    def __init__(self, data: bytes, at: Places, named: Schemas | None = None) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.at = at
        self.broken = np.zeros(len(at), np.bool_)
        self.named: Schemas = {} if named is None else named

    def read(self, given: object, type: RecordType, wanted: bool = True) -> Values:
        """The values of a schema, one per record; nothing where they are not wanted."""
        if isinstance(given, list):
            return self._read_optional(given, type, wanted)
        schema = given if isinstance(given, dict) else self.named.get(str(given), {"type": given})
        kind = schema["type"]
        if kind == "record":
            return self._read_record(schema, type, wanted)
        if kind in ("enum", "fixed"):
            self.named[schema["name"]] = schema
        if kind == "enum":
            return self._read_symbols(schema["symbols"])
        if kind in ("string", "bytes", "fixed"):
            return self._read_texts(kind == "string", schema.get("size"), wanted)
        if kind in ("int", "long"):
            numbers = self._read_numbers()
            return numbers.tolist() if wanted else ()
        if kind in _SIZED:
            return self._read_sized(_SIZED[kind])
        if kind == "null":
            return [None] * len(self.at)
        raise Unsupported(str(kind))

    def _read_record(self, schema: dict[str, Any], type: RecordType, wanted: bool) -> Values:
        kept_values: dict[str, Values] = {}
        for field in schema["fields"]:
            name = field["name"]
            kept = wanted and (type.fields is None or name in type.fields)
            values = self.read(field["type"], type.inner.get(name, ROW), kept)
            if kept:
                kept_values[name] = values
        # A record is known by its name only behind its end: nothing is within itself.
        self.named[str(schema["name"])] = schema
        return type.make(kept_values, len(self.at)) if wanted else ()

    def _read_optional(self, branches: Sequence[object], type: RecordType, wanted: bool) -> Values:
        """The values of a union of null and another type."""
        if len(branches) != 2 or "null" not in branches:
            raise Unsupported("union")
        null = branches.index("null")
        branch = self.bytes[self.at]
        self.broken |= (branch != 0) & (branch != 2)
        self._move(1)
        given = branch == 2 * (1 - null)
        inner = branches[1 - null]
        if given.all():
            return self.read(inner, type, wanted)
        places = np.flatnonzero(given)
        part = _Reader(self.data, self.at[places], self.named)
        values = part.read(inner, type, wanted)
        self.at[places] = part.at
        self.broken[places] |= part.broken
        if not wanted:
            return ()
        merged = np.empty(len(self.at), np.object_)  # of None
        merged[places] = values
        items: Values = merged.tolist()
        return items

    def _read_numbers(self) -> Places:
        """Zigzag numbers of up to ten bytes with seven bits each."""
        encoded = np.zeros(len(self.at), np.uint64)
        more: slice | Places = slice(None)
        for nth in range(_LONGEST_NUMBER):
            byte = self.bytes[self.at[more]]
            encoded[more] |= (byte & 127).astype(np.uint64) << np.uint64(7 * nth)
            self.at[more] += 1
            continued = byte > 127
            if not continued.any():
                break
            if not continued.all():
                more = np.flatnonzero(continued) if isinstance(more, slice) else more[continued]
        else:
            self.broken[more] = True
        self._move(0)
        signs = (encoded & np.uint64(1)).astype(np.int64)
        numbers: Places = (encoded >> np.uint64(1)).astype(np.int64) ^ -signs
        return numbers

    def _read_texts(self, text: bool, size: int | None, wanted: bool) -> Values:
        sizes = self._read_numbers() if size is None else np.full(len(self.at), size, np.int64)
        self.broken |= (sizes < 0) | (sizes > len(self.data))
        starts = self.at.copy()
        self._move(np.where(self.broken, 0, sizes))
        if not wanted:
            return ()
        data = self.data
        if self._are_the_same(starts, sizes):
            one = data[starts[0] : starts[0] + sizes[0]]
            return [one.decode() if text else one] * len(starts)
        spans = zip(starts.tolist(), self.at.tolist(), strict=True)
        if text:
            return [data[start:end].decode() for start, end in spans]
        return [data[start:end] for start, end in spans]

    def _are_the_same(self, starts: Places, sizes: Places) -> bool:
        """Whether all texts are one, as the names in Debezium's source blocks are."""
        size = int(sizes[0]) if sizes.size else 0
        if not 0 < size <= _LONGEST_NAME or (sizes != size).any():
            return False
        letters = np.arange(size)
        first = self.bytes[starts[0] + letters]
        if (self.bytes[starts[-1] + letters] != first).any():
            return False
        return bool((self.bytes[starts[:, None] + letters] == first).all())

    def _read_sized(self, kind: str) -> Values:
        size = np.dtype(kind).itemsize
        each = self.bytes[self.at[:, None] + np.arange(size)]
        self._move(size)
        items: Values = each.view(kind).ravel().tolist()
        return items

    def _read_symbols(self, symbols: Sequence[str]) -> Values:
        places = self._read_numbers()
        self.broken |= (places < 0) | (places >= len(symbols))
        return [symbols[place] for place in np.where(self.broken, 0, places).tolist()]

    def _move(self, size: int | Places) -> None:
        """Moves the places; one that leaves the data stays behind the end of every record."""
        self.at += size
        np.minimum(self.at, len(self.data) - _PADDING + 1, out=self.at)
