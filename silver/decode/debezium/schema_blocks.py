"""Schema blocks: what the source's columns are, and how a record writes them.

Each record is decoded by its own block, because the scale of a number can change in the middle of
a stream.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from silver.decode.debezium.encodings import Encoding, Field, from_block
from silver.decode.json_values import NotJson, parse_json

_BLOCKS = 256


@lru_cache(_BLOCKS)
def block_fields(block: bytes) -> Mapping[str, Encoding]:
    """The fields of `after` in a schema block, in its order; none in a text that is no such block.

    Heartbeats, transaction markers and schema changes come with blocks that have none.
    """
    try:
        parsed = parse_json(block)
    except NotJson:
        return {}
    after = [field for field in _fields(parsed) if field.get("field") == "after"]
    return {
        str(field["field"]): from_block(field)
        for one in after
        for field in _fields(one)
        if "field" in field
    }


def _fields(block: object) -> Iterator[Field]:
    inner = block.get("fields") if isinstance(block, Mapping) else None
    return (f for f in inner if isinstance(f, Mapping)) if isinstance(inner, list) else iter(())
