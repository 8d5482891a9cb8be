"""Values that come wrapped: with their schema, or in the frame of a serializer."""

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

import msgspec

from bronze.contract import SCHEMA_ID_BYTES, SHORT_ID
from lakehouse.config.formats import WHOLE_MEMBERS, value_of
from silver.decode.change import Record
from silver.decode.values.json_values import NotJson, check_levels, json_text, parse_json, parser_of

_ENVELOPES = (
    frozenset(("database", "table", "type", "data")),  # Canal and Maxwell
    frozenset(("specversion", "type", "source", "data")),  # CloudEvents
)
_WRITTEN_AS = (
    (
        re.compile(
            rb"(?:CreateTime|LogAppendTime|Partition|Offset):\d|NO_(?:TIMESTAMP|HEADERS)\s"
            rb"|[^\t]*\t\s*(?:\{|null\s*\Z)"
        ),
        "found a line with more than the value, as kafka-console-consumer prints keys and times in "
        "front of it, expected the value alone: leave out --property print.*, or write whole "
        "records down (kcat -J, rpk topic consume)",
    ),
    (
        re.compile(rb"Struct\{|\{\w+=(?!=)"),
        "found a row as Kafka Connect prints it, expected JSON: the file sink writes JSON with "
        "value.converter=org.apache.kafka.connect.storage.StringConverter",
    ),
)
"""What programs write that is no JSON, and what to set in them."""
_SPACE = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class OpenedRow(NamedTuple):
    """The object that a record's value is.

    Attributes:
        row: its members; None for a null value.
        block: the text of the schema block that it came with; None without one.
    """

    row: dict[str, object] | None
    block: bytes | None


class _Wrapper(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    payload: dict[str, object] | None
    schema: msgspec.Raw = msgspec.Raw()


_parse_wrapper = parser_of(_Wrapper)
_parse_whole = parser_of(
    msgspec.defstruct(
        "WholeRecord",
        [(name, msgspec.Raw, msgspec.Raw()) for name in WHOLE_MEMBERS["value"]],
        gc=False,
    )
)
_members_of = attrgetter(*WHOLE_MEMBERS["value"])
_parse_text = parser_of(str)


def strip_frame(data: bytes) -> bytes:
    """A JSON object without its frame; any other bytes as they are.

    Serializers that know a schema registry put a zero byte and the schema's id in front; a
    converter of texts makes the object a JSON text. Space around the frame does not count.
    """
    text = trim_text(data)
    if text[:1] == b"\0":
        inner = [text[size:] for size in (SHORT_ID, SCHEMA_ID_BYTES) if text[size:][:1] == b"{"]
        return inner[0] if inner and text[-1:] == b"}" else data
    if text[:2] != b'"{':
        return data
    try:
        return _text_in(text)
    except NotJson:
        return data


def value_inside(whole: bytes) -> bytes | None:
    """The value in the text of a whole record: a JSON text's content, None for a null.

    A text that is no JSON stays as it is.
    """
    text = trim_text(whole)
    try:
        first, other = _members_of(_parse_whole(text))
        value = bytes(first) or bytes(other) or b"null"
    except NotJson:
        try:
            value = json_text(value_of(_check_object(parse_json(text)))).encode()
        except UnicodeEncodeError:
            return text[:-1]  # which is refused as no JSON
        except NotJson:
            return whole
    if value == b"null":
        return None
    return _text_in(value) if value[:1] == b'"' else value


def open_row(record: Record) -> OpenedRow:
    """The object in a record, taken out of the wrapper around it.

    Raises:
        NotJson: the record's value is neither a JSON object nor null.
    """
    text = trim_text(record.raw or b"")
    if text in (b"", b"null"):
        return OpenedRow(None, None)
    if b'"payload"' in text:
        opened = _open_wrapper(text)
        if opened is not None:
            return opened
    return OpenedRow(_check_object(parse_json(text)), None)


def holds_rows(row: Mapping[str, object]) -> bool:
    """Whether an object is another program's envelope, which has rows inside of `data`."""
    return "data" in row and any(form <= row.keys() for form in _ENVELOPES)


def other_form(raw: bytes) -> str | None:
    """How a program wrote a text that is no JSON, and what helps; None for any other text."""
    text = trim_text(raw)
    return next((message for sign, message in _WRITTEN_AS if sign.match(text)), None)


def trim_text(text: bytes) -> bytes:
    """The text without space and byte order marks around it."""
    if text[:1] == b"{" and text[-1:] == b"}":
        return text
    shorter = text.strip(_SPACE)
    while shorter.startswith(_BYTE_ORDER_MARK) or shorter.endswith(_BYTE_ORDER_MARK):
        shorter = shorter.removeprefix(_BYTE_ORDER_MARK).removesuffix(_BYTE_ORDER_MARK)
        shorter = shorter.strip(_SPACE)
    return shorter


def _open_wrapper(text: bytes) -> OpenedRow | None:
    """The payload with its schema block; None for an object that is no wrapper."""
    check_levels(text)
    try:
        wrapper = _parse_wrapper(text)
    except NotJson:
        return None
    block = bytes(wrapper.schema)
    if block == b"null" or (not block and wrapper.payload is not None):
        return OpenedRow(wrapper.payload, None)
    return OpenedRow(wrapper.payload, block) if block[:1] == b"{" else None


def _text_in(text: bytes) -> bytes:
    """What a JSON text says."""
    try:
        return trim_text(_parse_text(text).encode())
    except (NotJson, UnicodeEncodeError):
        return trim_text(str(parse_json(text)).encode("utf-8", "surrogatepass"))


def _check_object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise NotJson("found no object")
    return value
