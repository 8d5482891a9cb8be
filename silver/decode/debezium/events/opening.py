"""Which form a feed's events have: full envelopes, or flattened; and an event as an envelope."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from bronze.contract import avro_schema_id
from lakehouse.config.table import Table
from silver.contract import TRUNCATE
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.schemas import Writer, avro_value, decode_avro
from silver.decode.change import Record
from silver.decode.columns import Columns
from silver.decode.debezium.events.documents import (
    CONNECTOR,
    DocumentChange,
    DocumentEvent,
    build_document_change,
    open_document,
    read_captured_update,
)
from silver.decode.debezium.events.envelope import (
    OF_SOURCE,
    Envelope,
    Row,
    open_record,
    operation_of,
)
from silver.decode.debezium.events.flattened import (
    event_of,
    has_added_members,
    is_flattened,
    is_marker,
    is_notification,
    is_other,
)
from silver.decode.renames import column_names
from silver.decode.values.json_values import NotJson, json_text
from silver.decode.wrapped import OpenedRow, open_row

FULL, FLATTENED, REWRITTEN = "full", "flattened", "flattened, deletes as rows"
"""The forms; tombstones of a feed whose deletes are rows say nothing more."""

_Event = TypeVar("_Event", Envelope, DocumentEvent)


class Opened(NamedTuple):
    """A record as an envelope.

    Attributes:
        envelope: None where the record says nothing: a log-compaction tombstone.
        block: the text of its schema block; None without one.
        rewrites: whether deletes come as rows in the feed of a flattened event; None for a full
            envelope.
        document: the event of MongoDB that it was, or the update of some columns that Spanner
            wrote; None for any other.
    """

    envelope: Envelope | None
    block: bytes | None
    rewrites: bool | None = None
    document: DocumentChange | None = None


class Opener:
    """Opens the records of one table.

    `source.envelope` says the form of its events; with `auto`, the first event that showed it does.

    Attributes:
        form: None while nothing has shown it. Each event then shows it by itself, but for a
            tombstone, which says nothing.
    """

    def __init__(self, table: Table, columns: Columns) -> None:
        declared = table.feeds[0].envelope
        self.form = columns.envelope
        if declared == FULL or (declared == FLATTENED and columns.envelope in (None, FULL)):
            self.form = declared
        self._finds_out = declared == "auto"
        self._table = table

    def open(self, record: Record) -> Opened:
        """The envelope of a record.

        Raises:
            NotJson: the record is not one JSON object of its form.
        """
        if self.form in (FLATTENED, REWRITTEN):
            return self._open_flattened(record)
        try:
            envelope, block = open_record(record)
        except NotJson:
            if document := _find_document(record):
                return document
            row = open_row(record) if self.form is None else OpenedRow(None, None)
            if row.row is None or not is_flattened(row.row, self._table, record):
                raise
            return _open_event(row, record)
        if envelope is None:
            return Opened(None, block)
        if envelope.source is not None and envelope.source.connector == CONNECTOR:
            return _find_document(record) or Opened(envelope, block)
        if envelope.after is None and envelope.before is None:
            return self._without_row(record, envelope, block)
        return _open_full(envelope, block)

    def open_key(self, record: Record) -> None:
        """Makes a record's key JSON, where the format of the records has it otherwise."""

    def _open_flattened(self, record: Record) -> Opened:
        row = open_row(record)
        if self.form == REWRITTEN if row.row is None else is_notification(row.row):
            return Opened(None, None)
        if self._finds_out and row.row is not None and is_other(row.row):
            return Opened(*open_record(record))
        return _open_event(row, record)

    def _without_row(self, record: Record, envelope: Envelope, block: bytes | None) -> Opened:
        """An object that has neither `after` nor `before`; an empty envelope if it is no event."""
        row = open_row(record)
        members = row.row or {}
        if is_notification(members):
            return Opened(None, None)
        if envelope.op is not None:
            flattened = has_added_members(members)
        else:
            flattened = is_flattened(members, self._table, record)
            envelope = envelope if is_marker(members) else Envelope()
        if flattened and self.form is None:
            return _open_event(row, record)
        return Opened(envelope, block)


class AvroOpener(Opener):
    """Opens the records of a table whose values and keys are Avro.

    Keys become JSON where a change needs them; a key that is no Avro stays as it is. Where another
    source of the table has JSON, a value without the id of a schema is JSON.
    """

    def __init__(self, table: Table, columns: Columns) -> None:
        super().__init__(table, columns)
        self._schemas = columns.schemas
        self._opened_key: bytes | None = None
        self._newest: Writer | None = None
        self._are_in_rows = False
        self._has_json = any(source.value_format != "avro" for source in table.feeds)
        origins = [column.origin for column in table.columns.values()]
        self._takes_from_key = any(o is not None and not o.startswith(OF_SOURCE) for o in origins)

    def open(self, record: Record) -> Opened:
        """The envelope of a record.

        Raises:
            NotAvro: the record is not Avro of a schema that bronze keeps.
        """
        if record.raw is None and self.form != FLATTENED:
            return Opened(None, None)
        if record.raw is None:
            self.open_key(record)
            return _open_event(OpenedRow(None, None), record)
        if self._has_json and avro_schema_id(record.raw, headers=record.headers) is None:
            return super().open(record)
        value, writer = avro_value(record, self._schemas)
        if not writer.is_envelope:
            return self._open_avro_row(value, writer, record)
        if writer.has_documents:
            return self._open_documents(value, record)
        envelope = value if isinstance(value, Envelope) else self._convert(value, Envelope)
        if self.form in (FLATTENED, REWRITTEN):
            return Opened(envelope, writer.text)
        if self._takes_from_key or not self._has_keys(envelope.after, writer):
            self.open_key(record)
        return _open_full(envelope, writer.text)

    def _has_keys(self, row: Row | None, writer: Writer) -> bool:
        """Whether a row has fields for all keys; all rows of a writer have the same ones."""
        if row is None:
            return False
        if writer is not self._newest:
            columns = column_names(self._table, row)
            self._newest, self._are_in_rows = writer, {*self._table.keys} <= {*columns}
        return self._are_in_rows

    def _open_documents(self, value: object, record: Record) -> Opened:
        """An event of MongoDB; what is inside of its documents is JSON."""
        self.open_key(record)
        try:
            document = build_document_change(self._convert(value, DocumentEvent), record)
        except NotJson as error:
            raise NotAvro(f"found a document that is not JSON: {error}") from None
        return Opened(document.envelope, None, None, document)

    def _convert(self, value: object, type: type[_Event]) -> _Event:
        try:
            return msgspec.convert(value, type)
        except msgspec.ValidationError as error:
            raise NotAvro(str(error)) from None

    def _open_avro_row(self, row: object, writer: Writer, record: Record) -> Opened:
        """A value that is no envelope: a flattened event, or a marker, which says nothing."""
        if not isinstance(row, dict):
            raise NotAvro("found a value that is no record")
        if is_marker(row):
            return Opened(None, None)
        if self.form == FULL:
            raise NotAvro("found a row without an envelope, expected a full envelope")
        self.open_key(record)
        if self.form is None and not is_flattened(row, self._table, record):
            return Opened(Envelope(), None)
        return _open_event(OpenedRow(row, writer.text), record)

    def open_key(self, record: Record) -> None:
        """Makes a record's key JSON.

        Raises:
            NotAvro: the key is not Avro of a schema that bronze keeps.
        """
        key = record.key
        if key is None or key is self._opened_key:
            return
        if avro_schema_id(key, "key", record.headers) is not None:
            value, _ = decode_avro(key, self._schemas, record.headers, "key")
            record.key = self._opened_key = json_text(value).encode()


def record_opener(table: Table, columns: Columns) -> Opener:
    """What opens a table's records, by the format of their values."""
    avro = any(source.value_format == "avro" for source in table.feeds)
    return AvroOpener(table, columns) if avro else Opener(table, columns)


def waits_for_form(table: Table, columns: Columns, records: Iterable[Record]) -> bool:
    """Whether records have tombstones and no event, and the form of the feed's events is not known.

    A tombstone is a delete among flattened events, and nothing among full envelopes. One without a
    key says nothing in either. Records that show no form, such as heartbeats and broken ones, make
    no difference: what tombstones become does not depend on how records are cut into batches.
    """
    opener = record_opener(table, columns)
    if not table.keys or opener.form is not None:
        return False
    names_key = False
    for record in records:
        if _is_tombstone(record):
            names_key |= record.key is not None
        elif _shows_form(opener, record):
            return False
    return names_key


def _is_tombstone(record: Record) -> bool:
    try:
        return open_row(record).row is None
    except NotJson:
        return False


def _shows_form(opener: Opener, record: Record) -> bool:
    try:
        return form_of(opener.open(record)) is not None
    except (NotJson, NotAvro):
        return False


def form_of(opened: Opened) -> str | None:
    """The form that an event shows; None for one that can be of either."""
    envelope = opened.envelope
    if envelope is None:
        return None
    has_row = envelope.after is not None or envelope.before is not None
    if opened.rewrites is None:
        return FULL if has_row or operation_of(envelope) == TRUNCATE else None
    return (REWRITTEN if opened.rewrites else FLATTENED) if has_row else None


def _open_full(envelope: Envelope, block: bytes | None) -> Opened:
    source = envelope.source
    if source is None or source.value_capture_type is None:
        return Opened(envelope, block)
    return Opened(envelope, block, None, read_captured_update(envelope))


def _open_event(row: OpenedRow, record: Record) -> Opened:
    envelope, rewrites = event_of(row.row, record)
    return Opened(envelope, row.block, rewrites)


def _find_document(record: Record) -> Opened | None:
    document = open_document(record)
    return None if document is None else Opened(document.envelope, None, None, document)
