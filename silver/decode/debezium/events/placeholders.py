"""Values a change does not carry: PostgreSQL leaves large values it did not touch out of the log.

Debezium writes a placeholder in their stead, in a form for each type. The same text can be a row's
real value, so it counts as a placeholder only where one can occur.
"""

import base64
import hashlib
import uuid
from collections.abc import Iterable

from pyspark.sql import types as T

from silver.decode.change import Record
from silver.decode.debezium.events.connectors import INVENTING
from silver.decode.debezium.events.envelope import Envelope, Row
from silver.decode.values.json_values import json_text


class Placeholders:
    """The forms of a placeholder: as text, bytes, array or map."""

    def __init__(self, unavailable_value: str) -> None:
        digits = unavailable_value.removeprefix("hex:")
        is_hex = digits != unavailable_value
        self.binary = binary = bytes.fromhex(digits) if is_hex else unavailable_value.encode()
        text = binary.decode("utf-8", errors="replace")
        packed = base64.b64encode(binary).decode()
        signed = [octet - 256 if octet > 127 else octet for octet in binary]
        self.lists: list[list[object]] = [[text], [packed], [*signed], [_named_uuid(binary)]]
        self.map: Row = {text: text}
        tokens = [text, packed, base64.urlsafe_b64encode(binary).decode(), binary.hex()]
        self.texts = frozenset([*tokens, *map(json_text, self.lists), json_text(self.map)])
        self.scalars: frozenset[object] = self.texts | {binary}

    def match(self, value: object) -> bool:
        """Whether a parsed value is a placeholder."""
        if type(value) is str:
            return value in self.texts
        if type(value) is bytes:
            return value == self.binary
        if type(value) is list:
            return value in self.lists
        return type(value) is dict and value == self.map

    def is_in(self, values: Iterable[object]) -> bool:
        """Whether one of some parsed values is a placeholder."""
        try:
            return not self.scalars.isdisjoint(values)
        except TypeError:  # lists and objects are among them
            return any(map(self.match, values))


def can_be_placeholder(type: T.DataType) -> bool:
    """Whether values of a type can be large enough to be left out."""
    return isinstance(type, T.StringType | T.BinaryType | T.ArrayType | T.MapType | T.StructType)


def may_hold_placeholders(record: Record, envelope: Envelope, moved: bool) -> bool:
    """Whether a record can hold placeholders at all: an update, or the insert of a key change.

    An update that shows the whole old row, as PostgreSQL's REPLICA IDENTITY FULL has it, carries
    everything. An insert is that of a key change where the record's headers name an old key
    (`moved`); where the record came without a place for headers, any insert may be that is not the
    first change of its transaction.
    """
    if envelope.op == "u":
        source = envelope.source
        return envelope.before is None or not (source is None or source.connector in INVENTING)
    if envelope.op != "c":
        return False
    if moved:
        return True
    return record.topic is None and record.headers is None and _follows_another(envelope)


def _follows_another(envelope: Envelope) -> bool:
    """Whether the change is not the first of its transaction; true where unknown."""
    transaction = envelope.transaction
    order = None if transaction is None else transaction.total_order
    try:
        return order is None or int(str(order)) > 1
    except ValueError:
        return True


def _named_uuid(binary: bytes) -> str:
    digest = hashlib.md5(binary, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
