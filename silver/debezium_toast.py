"""Values a change does not carry: PostgreSQL leaves large values it did not touch out of the log.

Debezium writes a placeholder in their stead, in a form for each type. The same text can be a row's
real value, so it counts as a placeholder only where one can occur.
"""

import base64
import hashlib
import json
import uuid

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T


def forms(unavailable_value: str) -> list[str]:
    """Every token the placeholder can have: as text, bytes, array or map (compact JSON)."""
    binary = _octets(unavailable_value)
    text = binary.decode("utf-8", errors="replace")
    packed = base64.b64encode(binary).decode()
    signed = [octet - 256 if octet > 127 else octet for octet in binary]
    tokens = [text, packed, base64.urlsafe_b64encode(binary).decode(), binary.hex()]
    lists = [[text], [packed], signed, [_named_uuid(binary)]]
    compact = [json.dumps(value, separators=(",", ":")) for value in [*lists, {text: text}]]
    return list(dict.fromkeys([*tokens, *compact]))


def can_be_placeholder(type: T.DataType) -> bool:
    """Whether values of a type can be large enough to be left out."""
    return isinstance(type, T.StringType | T.BinaryType | T.ArrayType | T.MapType | T.StructType)


def may_hold_placeholders(
    op: Column, moved: Column, plain: Column, total_order: Column, full_before: Column
) -> Column:
    """Whether a record can hold placeholders at all.

    Args:
        op: Debezium's operation.
        moved: whether the record's headers name an old key.
        plain: whether the record came without a place for headers.
        total_order: order in the transaction; the insert half of a key change is never the first.
        full_before: whether `before` shows the whole row, as REPLICA IDENTITY FULL has it: then
            everything is carried.
    """
    unseen_move = plain & (F.coalesce(total_order, F.lit(2)) > 1)
    return ((op == "u") & ~full_before) | ((op == "c") & (moved | unseen_move))


def _octets(unavailable_value: str) -> bytes:
    if unavailable_value.startswith("hex:"):
        return bytes.fromhex(unavailable_value.removeprefix("hex:"))
    return unavailable_value.encode()


def _named_uuid(binary: bytes) -> str:
    digest = hashlib.md5(binary, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
