"""MongoDB's events of documents, and Spanner's updates of some columns, as envelopes of rows.

MongoDB's events carry whole documents as JSON text, or the fields that an update changed.

A document's `_id` is the column `id`, as the record's key calls it, and has the key's text; a field
of the document that is called `id` itself is `id_source`. Values in MongoDB's Extended JSON become
plain ones: numbers, ISO texts of dates, base64; an ObjectId keeps the text `{"$oid": "…"}` that
keys have. What is nested is an object or array.

Spanner's `NEW_ROW` and `NEW_ROW_AND_OLD_VALUES` carry whole rows. Its connector writes null for a
column that `OLD_AND_NEW_VALUES` or `NEW_VALUES` leave out. Old values show whether a null was
written; without them it is unknown.
"""

import base64
import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from silver.decode.change import Record
from silver.decode.debezium.events.envelope import Envelope, Row, SourceBlock, Transaction, key_row
from silver.decode.types import Misfit
from silver.decode.values.json_values import NotJson, NumberText, json_text, parse_json
from silver.decode.values.times import timestamp_text, timestamp_value
from silver.decode.wrapped import open_row

CONNECTOR = "mongodb"
_ID_FIELD, _ID_COLUMN, _OTHER_ID_COLUMN = "_id", "id", "id_source"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"-?[0-9]{1,40}")
_WITH_OLD, _WITHOUT_OLD = "OLD_AND_NEW_VALUES", "NEW_VALUES"
_UNCLEAR_NULL = (
    "found an update with value_capture_type NEW_VALUES, in which a null may be a column that it "
    "did not change, expected NEW_ROW"
)
_NESTED = (
    "found an update of a part of a field ({}) without the document, expected whole documents: "
    "capture.mode change_streams_update_full"
)
_UUID_SUBTYPES = ("03", "04", "3", "4")


class DocumentChange(NamedTuple):
    """A change of a document or of some columns, as an envelope of rows.

    Attributes:
        envelope: the document in `after`, or the fields that the update changed.
        partial: whether `after` has changed fields only; the others are as they were.
        problem: why the update cannot be applied, as a message; None where it can.
    """

    envelope: Envelope
    partial: bool = False
    problem: str | None = None


class _Update(msgspec.Struct, gc=False):
    removedFields: list[str] | None = None  # Debezium's names
    updatedFields: object = None
    truncatedArrays: list[object] | None = None


class DocumentEvent(msgspec.Struct, gc=False):
    """An envelope whose rows are documents, as JSON text or objects."""

    before: object = None
    after: object = None
    source: SourceBlock | None = None
    transaction: Transaction | None = None
    op: object = None
    updateDescription: _Update | None = None
    patch: object = None  # of Debezium before 2.0
    ts_us: object = None
    ts_ms: object = None


def open_document(record: Record) -> DocumentChange | None:
    """The change event of MongoDB that a record is; None for any other record."""
    try:
        row = open_row(record).row
        event = None if row is None else msgspec.convert(row, DocumentEvent)
        if event is None:
            return None
        is_mongodb = event.source is not None and event.source.connector == CONNECTOR
        is_of_texts = isinstance(event.after, str) or isinstance(event.before, str)
        return build_document_change(event, record) if is_mongodb or is_of_texts else None
    except (NotJson, msgspec.ValidationError, UnicodeError):
        return None


def read_captured_update(envelope: Envelope) -> DocumentChange | None:
    """An update of Spanner that carries some columns only; None for any other event."""
    source, after = envelope.source, envelope.after
    if source is None or after is None or envelope.op != "u":
        return None
    if source.value_capture_type not in (_WITH_OLD, _WITHOUT_OLD):
        return None
    before = envelope.before or {}
    written = {n: v for n, v in after.items() if v is not None or before.get(n) is not None}
    envelope.after = written
    is_unclear = len(written) < len(after) and source.value_capture_type == _WITHOUT_OLD
    return DocumentChange(envelope, True, _UNCLEAR_NULL if is_unclear else None)


def build_document_change(event: DocumentEvent, record: Record) -> DocumentChange:
    """The change that an event says, with the row's key from the record's key.

    Raises:
        NotJson: a document is no JSON object.
    """
    key = (key_row(record.key) or {}).get(_ID_COLUMN)
    patch = _parse_object(event.patch)
    replaces = patch is not None and not any(name.startswith("$") for name in patch)
    envelope = Envelope(
        before=build_row(event.before, key),
        after=build_row(patch if replaces else event.after, key),
        source=event.source,
        transaction=event.transaction,
        op=event.op,
        ts_us=event.ts_us,
        ts_ms=event.ts_ms,
    )
    update = event.updateDescription or _parse_patch(patch)
    if event.op != "u" or envelope.after is not None or update is None:
        return DocumentChange(envelope)
    return _apply_update(envelope, update)


def _apply_update(envelope: Envelope, update: _Update) -> DocumentChange:
    """The change of the fields that an update names."""
    updated = _parse_object(update.updatedFields) or {}
    removed = update.removedFields or []
    nested = next((name for name in (*updated, *removed) if "." in name), None)
    if nested is not None or update.truncatedArrays:
        envelope.after = {}
        return DocumentChange(envelope, True, _NESTED.format(nested or "a shortened array"))
    envelope.after = {_column_name(name): to_plain_json(v) for name, v in updated.items()}
    envelope.after |= {_column_name(name): None for name in removed}
    return DocumentChange(envelope, True)


def _parse_patch(patch: Mapping[str, object] | None) -> _Update | None:
    """The update in a patch of MongoDB's oplog; `name.` makes other members nested fields."""
    if patch is None:
        return None
    others = [f"{name}." for name in patch if name not in ("$v", "$set", "$unset")]
    return _Update([*(_parse_object(patch.get("$unset")) or ()), *others], patch.get("$set"))


def build_row(document: object, key: object) -> Row | None:
    """The row that a document is; its `id` is `key`, or the text of its own."""
    members = _parse_object(document)
    if members is None:
        return None
    if _ID_FIELD not in members:
        return {name: to_plain_json(v) for name, v in members.items()}
    row = {_column_name(n): to_plain_json(v) for n, v in members.items() if n != _ID_FIELD}
    row[_ID_COLUMN] = id_text(members[_ID_FIELD]) if key is None else key
    return row


def _parse_object(document: object) -> Mapping[str, object] | None:
    """The members of a document, which is JSON text or an object; None for a null.

    Raises:
        NotJson: it is neither.
    """
    members = parse_json(document) if isinstance(document, str) else document
    if members is None or isinstance(members, dict):
        return members
    raise NotJson("the document is no object")


def _column_name(name: str) -> str:
    return _OTHER_ID_COLUMN if name == _ID_COLUMN else name


def id_text(value: object) -> object:
    """An `_id` as Debezium writes it in a record's key: JSON text, of an object with spaces."""
    if isinstance(value, dict):
        for name in ("$numberLong", "$numberInt"):
            if name in value:
                return value[name]
        return json.dumps(_with_floats(value), ensure_ascii=False)
    return json_text(value) if isinstance(value, str | list) else value


def _with_floats(value: object) -> object:
    """A value with floats for `NumberText`, which Python's `json` would write as a text."""
    if isinstance(value, NumberText):
        return float(value)
    if isinstance(value, dict):
        return {name: _with_floats(one) for name, one in value.items()}
    return [_with_floats(one) for one in value] if isinstance(value, list) else value


def to_plain_json(value: object) -> object:
    """A value in MongoDB's Extended JSON as plain JSON; nested ones too."""
    if isinstance(value, list):
        return [to_plain_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    name = next(iter(value), "")
    if name.startswith("$") and len(value) <= 2:
        convert = _EXTENDED.get(name)
        return value if convert is None else convert(value, value[name])
    return {name: to_plain_json(member) for name, member in value.items()}


def _parse_whole(value: object, inner: object) -> object:
    return int(str(inner)) if _WHOLE.fullmatch(str(inner)) else value


def _parse_number(_: object, inner: object) -> object:
    text = str(inner)
    return NumberText(text) if _NUMBER.fullmatch(text) else text


def _parse_timestamp(value: object, inner: object) -> object:
    seconds = inner.get("t") if isinstance(inner, dict) else None
    return _date_text(seconds * 1_000) if type(seconds) is int else value


def _date_text(value: object) -> object:
    """ISO text of a date in milliseconds since 1970."""
    if type(value) is not int:
        return value
    try:
        return timestamp_text(timestamp_value(value, "ms", zoned=True)).replace(" ", "T") + "Z"
    except (Misfit, OverflowError):
        return value


def _binary_text(value: dict[str, object], inner: object) -> object:
    """Base64; the text of a UUID for a value that is one."""
    packed, kind = inner, value.get("$type")
    if isinstance(inner, dict):
        packed, kind = inner.get("base64"), inner.get("subType")
    if kind not in _UUID_SUBTYPES or not isinstance(packed, str):
        return packed
    try:
        return str(uuid.UUID(bytes=base64.b64decode(packed)))
    except ValueError:
        return packed


_EXTENDED: Mapping[str, Callable[[dict[str, object], object], object]] = {
    "$numberLong": _parse_whole,
    "$numberInt": _parse_whole,
    "$numberDouble": _parse_number,
    "$numberDecimal": _parse_number,
    "$date": lambda _, inner: _date_text(to_plain_json(inner)),
    "$timestamp": _parse_timestamp,
    "$oid": lambda value, _: id_text(value),
    "$binary": _binary_text,
    "$undefined": lambda _value, _inner: None,
    "$uuid": lambda _, inner: inner,
    "$symbol": lambda _, inner: inner,
}
"""By its first member: from an object in Extended JSON and that member's value to plain JSON."""
