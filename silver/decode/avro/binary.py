"""Avro's binary encoding, read by the writer's schema.

A schema becomes a function that reads its values out of bytes. Logical types are left as they are
encoded (days, ticks, two's complement): `silver.decode.avro.schemas` tells what they stand for.
Source of the rules: the Avro specification, "Binary encoding".
"""

import struct
from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

Read = Callable[[bytes, int], tuple[object, int]]
"""Takes bytes and a place in them, gives the value there and the place behind it."""

_FLOAT, _DOUBLE = struct.Struct("<f").unpack_from, struct.Struct("<d").unpack_from


class NotAvro(ValueError):
    """Bytes that are not of the schema, or a schema that is none."""


def read_value(read: Read, data: bytes, start: int) -> object:
    """The value that begins at `start` and ends with the bytes.

    Raises:
        NotAvro: the bytes are not one value of the schema.
    """
    try:
        value, end = read(data, start)
    except (IndexError, struct.error, UnicodeError, RecursionError) as error:
        raise NotAvro(str(error)) from None
    if end != len(data):
        raise NotAvro(f"found {len(data)} bytes, expected {end}")
    return value


def reader_of(schema: object, only: Mapping[str, frozenset[str]] | None = None) -> Read:
    """The function that reads values of a schema.

    Args:
        schema: the parsed JSON of the writer's schema.
        only: of fields of the outermost record that are records, the names that are wanted.

    Raises:
        NotAvro: it is no schema.
    """
    return _Compiler(only or {}).read(schema, "", True)


class _Compiler:
    """Makes the functions of one schema; named types can be used before they are complete."""

    def __init__(self, only: Mapping[str, frozenset[str]]) -> None:
        self._only = only
        self._named: dict[str, Read] = {}

    def read(self, schema: object, space: str, outermost: bool = False) -> Read:
        """The function for a schema within a namespace."""
        if isinstance(schema, list):
            return _union([self.read(branch, space) for branch in schema])
        if isinstance(schema, dict):
            return self._complex(schema, space, outermost)
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._reference(schema, space)
        raise NotAvro(f"found {schema!r}, expected an Avro schema")

    def _reference(self, name: str, space: str) -> Read:
        for full in (f"{space}.{name}" if space and "." not in name else name, name):
            if full in self._named:
                return self._named[full]
        raise NotAvro(f"found the type {name!r}, expected one that the schema defines")

    def _complex(self, schema: dict[str, object], space: str, outermost: bool) -> Read:
        kind = schema.get("type")
        if kind == "array":
            return _array(self.read(schema.get("items"), space))
        if kind == "map":
            return _map(self.read(schema.get("values"), space))
        if kind not in ("record", "error", "enum", "fixed"):
            return self.read(kind, space)
        name, space = _full_name(schema, space)
        if kind == "enum":
            symbols = schema.get("symbols")
            made = _enum([str(s) for s in symbols] if isinstance(symbols, list) else [])
        elif kind == "fixed":
            made = _fixed(int(str(schema.get("size"))))
        else:
            return self._record(schema, name, space, outermost)
        self._named[name] = made
        return made

    def _record(self, schema: dict[str, object], name: str, space: str, outermost: bool) -> Read:
        made: list[Read] = []
        self._named[name] = lambda data, at: made[0](data, at)
        given = schema.get("fields")
        fields = [f for f in given if isinstance(f, dict)] if isinstance(given, list) else []
        reads: list[tuple[str | None, Read]] = []
        for field in fields:
            own = str(field.get("name"))
            read = self.read(field.get("type"), space)
            wanted = self._only.get(own) if outermost else None
            if wanted is not None:
                read = self._part(field.get("type"), space, wanted) or read
            reads.append((own, read))
        made.append(_fields(reads))
        return made[0]

    def _part(self, schema: object, space: str, wanted: frozenset[str]) -> Read | None:
        """Reads a record of which only some fields are wanted; None for any other schema."""
        if isinstance(schema, list):
            parts = [self._part(branch, space, wanted) for branch in schema]
            if not any(parts):
                return None
            branches = zip(schema, parts, strict=True)
            return _union([part or self.read(branch, space) for branch, part in branches])
        if not isinstance(schema, dict) or schema.get("type") != "record":
            return None
        _, inner = _full_name(schema, space)
        given = schema.get("fields")
        fields = [f for f in given if isinstance(f, dict)] if isinstance(given, list) else []
        reads: list[tuple[str | None, Read]] = []
        for field in fields:
            name = str(field.get("name"))
            read = self.read(field.get("type"), inner)
            reads.append((name if name in wanted else None, read))
        return _fields(reads)


def _full_name(schema: Mapping[str, object], space: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace inside of it."""
    name = str(schema.get("name"))
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(schema.get("namespace") or space)
    return (f"{space}.{name}" if space else name), space


def _number(data: bytes, at: int) -> tuple[int, int]:
    """An int or long: zigzag, seven bits per byte."""
    byte = data[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise NotAvro("found a number of more than 64 bits")


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size = data[at]
    if size < 128:
        size >>= 1
        at += 1
    else:
        size, at = _number(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise IndexError("found an end within a value")
    return data[at:end], end


def _string(data: bytes, at: int) -> tuple[str, int]:
    size = data[at]
    if size < 128 and not size & 1:
        size >>= 1
        at += 1
    else:
        size, at = _number(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise IndexError("found an end within a value")
    return data[at:end].decode(), end


def _skip_bytes(data: bytes, at: int) -> tuple[None, int]:
    size = data[at]
    if size < 128 and not size & 1:
        return None, at + 1 + (size >> 1)
    size, at = _number(data, at)
    if size < 0:
        raise IndexError("found a negative length")
    return None, at + size


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == 1, at + 1


def _null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _float(data: bytes, at: int) -> tuple[object, int]:
    return _FLOAT(data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[object, int]:
    return _DOUBLE(data, at)[0], at + 8


_PRIMITIVES: Mapping[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": _number,
    "long": _number,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


_OPTIONAL: WeakKeyDictionary[Read, tuple[int, Read]] = WeakKeyDictionary()
"""Of functions that read a value or null: the branch that is null, and what reads the value."""


def _union(branches: list[Read]) -> Read:
    if len(branches) == 2 and _null in branches:
        null = 2 * branches.index(_null)
        other = branches[0 if null else 1]

        def optional(data: bytes, at: int) -> tuple[object, int]:
            branch = data[at]
            if branch == null:
                return None, at + 1
            if branch > 2:
                raise IndexError("found no branch of a union")
            return other(data, at + 1)

        _OPTIONAL[optional] = (null, other)
        return optional

    def read(data: bytes, at: int) -> tuple[object, int]:
        branch, at = _number(data, at)
        if branch < 0:
            raise IndexError("found no branch of a union")
        return branches[branch](data, at)

    return read


_ANY, _TEXT, _WHOLE, _PASS = range(4)
_Step = tuple[int, int, str | None, Read]
"""What to do with a field: how to read it, the union branch that is null (-1 for no union), its
name (None where it is not wanted), and what reads it otherwise."""


def _fields(reads: list[tuple[str | None, Read]]) -> Read:
    """Reads a record; texts and whole numbers, maybe null, in the loop itself.

    A call for each field would take most of the time of this innermost loop.
    """
    steps = [_step(name, read) for name, read in reads]

    def read(data: bytes, at: int) -> tuple[object, int]:
        found: dict[str, object] = {}
        for kind, null, name, one in steps:
            if null >= 0:
                branch = data[at]
                if branch > 2:
                    raise IndexError("found no branch of a union")
                at += 1
                if branch == null:
                    if name is not None:
                        found[name] = None
                    continue
            value: object
            if kind != _ANY:
                byte = data[at]
                if byte < 128 and kind == _WHOLE:
                    value, at = (byte >> 1) ^ -(byte & 1), at + 1
                elif byte < 128 and not byte & 1:
                    start = at + 1
                    at = start + (byte >> 1)
                    if kind == _PASS:
                        continue
                    if at > len(data):
                        raise IndexError("found an end within a value")
                    value = data[start:at].decode()
                else:
                    value, at = one(data, at)
            else:
                value, at = one(data, at)
            if name is not None:
                found[name] = value
        return found, at

    return read


def _step(name: str | None, read: Read) -> _Step:
    null, inner = _OPTIONAL.get(read, (-1, read))
    kinds: dict[Read, int] = {_string: _TEXT, _number: _WHOLE}
    kind = kinds.get(inner, _ANY)
    if name is None and inner in (_string, _bytes):
        kind, inner = _PASS, _skip_bytes
    return kind, null, name, inner


def _array(item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        found = []
        count, at = _count(data, at)
        while count:
            for _ in range(count):
                value, at = item(data, at)
                found.append(value)
            count, at = _count(data, at)
        return found, at

    return read


def _map(item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        found: dict[str, object] = {}
        count, at = _count(data, at)
        while count:
            for _ in range(count):
                name, at = _string(data, at)
                found[name], at = item(data, at)
            count, at = _count(data, at)
        return found, at

    return read


def _count(data: bytes, at: int) -> tuple[int, int]:
    """How many items a block has; a negative count has the block's size in bytes behind it."""
    count, at = _number(data, at)
    if count < 0:
        _, at = _number(data, at)
        count = -count
    if count > len(data):
        raise IndexError("found more items than bytes")
    return count, at


def _enum(symbols: list[str]) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        place, at = _number(data, at)
        if place < 0:
            raise IndexError("found no symbol of an enum")
        return symbols[place], at

    return read


def _fixed(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        if at + size > len(data):
            raise IndexError("found an end within a value")
        return data[at : at + size], at + size

    return read
