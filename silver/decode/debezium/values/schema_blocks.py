"""Schema blocks: what the source's columns are, and how a record writes them.

Each record is decoded by its own block, because the scale of a number can change in the middle of
a stream.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from silver.decode.avro.schemas import connect_block, is_avro
from silver.decode.debezium.values.encodings import Encoding, Field, from_block
from silver.decode.values.json_values import NotJson, parse_json

_BLOCKS = 256


@lru_cache(_BLOCKS)
def block_fields(block: bytes) -> Mapping[str, Encoding]:
    """The fields of `after` in a schema block, in its order; none in a text that is no such block.

    Heartbeats, transaction markers and schema changes come with blocks that have none.
    """
    return _encodings(
        f for a in _fields(_parsed(block)) if a.get("field") == "after" for f in _fields(a)
    )


@lru_cache(_BLOCKS)
def row_block_fields(block: bytes) -> Mapping[str, Encoding]:
    """The fields of a schema block that describes a row and no envelope, in its order."""
    return _encodings(
        f for f in _fields(_parsed(block)) if not str(f.get("field")).startswith("__")
    )


@lru_cache(_BLOCKS)
def block_defaults(block: bytes) -> Mapping[str, object]:
    """The defaults of the fields of `before`, or of a row, in a schema block."""
    members = list(_fields(_parsed(block)))
    before = next((m for m in members if m.get("field") == "before"), None)
    fields = members if before is None else _fields(before)
    return {str(f["field"]): f["default"] for f in fields if "field" in f and "default" in f}


def _encodings(fields: Iterable[Field]) -> Mapping[str, Encoding]:
    return {str(field["field"]): from_block(field) for field in fields if "field" in field}


def _parsed(block: bytes) -> object:
    """A block's members; those of an Avro schema as Kafka Connect would have them."""
    try:
        found = parse_json(block)
    except NotJson:
        return None
    return connect_block(found) if is_avro(found) else found


@lru_cache(_BLOCKS)
def is_avro_block(block: bytes) -> bool:
    """Whether a schema block is the Avro schema that wrote a record's values."""
    try:
        return is_avro(parse_json(block))
    except NotJson:
        return False


def _fields(block: object) -> Iterator[Field]:
    inner = block.get("fields") if isinstance(block, Mapping) else None
    return (f for f in inner if isinstance(f, Mapping)) if isinstance(inner, list) else iter(())
