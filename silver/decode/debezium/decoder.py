"""Debezium records as changes.

c, u and r are upserts, d deletes, t truncates; logical messages, heartbeats, transaction markers,
schema records and log-compaction tombstones carry no change. Values are read by the record's own
schema block, else by the column's type. A new version of a row comes from `after` alone; of
`before` no more than the key is read, unless the table has no key: then it must be the whole old
row.
"""

from collections.abc import Iterable, Iterator

import msgspec

from bronze.contract import avro_schema_id
from lakehouse.table import Table
from silver.contract import DELETE, NONE, TRUNCATE, UPSERT
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.schemas import UNDECLARED_AVRO
from silver.decode.change import (
    BAD_SEQUENCE,
    BAD_VALUE,
    ILLEGAL_CHANGE,
    INCOMPATIBLE_SCHEMA,
    NO_KEY,
    NOT_AVRO,
    NOT_JSON,
    UNKNOWN_OPERATION,
    Change,
    Record,
)
from silver.decode.column_types import Misfit
from silver.decode.columns import UNFIT, Columns, is_published, required_columns
from silver.decode.debezium.documents import DocumentChange
from silver.decode.debezium.envelope import Envelope, Row, key_row, old_key_row
from silver.decode.debezium.flattened import ordered_event
from silver.decode.debezium.old_rows import row_json
from silver.decode.debezium.opening import FLATTENED, REWRITTEN, record_opener
from silver.decode.debezium.order import ordered_change
from silver.decode.debezium.placeholders import Placeholders, may_hold_placeholders
from silver.decode.debezium.row_plans import Reading, RowPlan, RowReader, TableLayout
from silver.decode.debezium.schema_blocks import block_fields, is_avro_block, row_block_fields
from silver.decode.json_values import NotJson, json_text, text_of
from silver.decode.typed_values import Converter, misfit_message

_OPERATIONS = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "t": TRUNCATE, "m": NONE}
_MARKERS = ("BEGIN", "END")
_SHOWN, _SHOWN_OF_SOURCE = 100, 300
_MOST_BLOCKS = 256
_MIXED = (
    "found a full envelope among flattened events, expected events of one form in a feed "
    "(source.envelope says which)"
)

Values = list[object]
Misfits = dict[int, object]
"""Values that do not fit, by the place of their column."""

_Wanted = tuple[bytes | None, bool, bool, bool]
"""A schema block, and whether a source block, a flattened event or a document is described."""


class Decoder:
    """Decodes the records of one table."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self.layout = TableLayout(table, columns)
        self.columns = columns.columns
        self.placeholders = Placeholders(self.layout.source.unavailable_value)
        required = required_columns(table)
        self._required = [at for at, c in enumerate(self.columns) if c.name in required]
        self._opener = record_opener(table, columns)
        self._shows_form = self._opener.form is None and not columns.settled
        self._only_flattened = self._opener.form in (FLATTENED, REWRITTEN)
        self._readers: dict[_Wanted, RowReader] = {}
        self._newest: _Wanted = (None, True, False, False)
        self._reader = self._made(*self._newest)

    def decode(self, record: Record) -> Change:
        """The change that a record says; a record that cannot be read is a dead letter."""
        try:
            opened = self._opener.open(record)
        except NotAvro as error:
            return Change(None, snapshot_last=False, reason=NOT_AVRO, message=str(error))
        except NotJson:
            if avro_schema_id(record.raw or b""):
                return Change(None, snapshot_last=False, reason=NOT_JSON, message=UNDECLARED_AVRO)
            found = (record.raw or b"")[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
            message = f"found {found}, expected one JSON object with a Debezium change"
            return Change(None, snapshot_last=False, reason=NOT_JSON, message=message)
        envelope, block, event, document = opened
        if envelope is None:
            return Change(NONE, snapshot_last=False)
        operation = operation_of(envelope)
        if event is None:
            change = ordered_change(envelope, operation)
            reader = self._reader_of(
                (block, envelope.source is not None, False, document is not None)
            )
        else:
            change = ordered_event(event, record, operation)
            reader = self._reader_of((block, True, True, False))
        change.unlike = reader.unlike or (event is not None and self._shows_form)
        if operation == NONE:
            change.sequence = None
            return change
        if operation == UPSERT:
            self._read_upsert(record, envelope, reader, change)
        elif operation == DELETE:
            self._read_delete(record, envelope, reader, change)
        elif operation is None:
            op = "none" if envelope.op is None else text_of(envelope.op)[:_SHOWN]
            _reject(change, UNKNOWN_OPERATION, f"found op {op}, expected c, u, r, d, t or m")
        if document is not None:
            self._complete_document(document, change)
        if event is None and self._only_flattened and envelope.op is not None:
            _reject(change, UNKNOWN_OPERATION, _MIXED)
        if change.reason is None:
            _check_order(record, envelope, change)
        if change.reason is None and self._required and operation == UPSERT:
            self._check_required(change)
        return change

    def _reader_of(self, wanted: _Wanted) -> RowReader:
        if wanted != self._newest:
            self._newest = wanted
            found = self._readers.get(wanted)
            if found is None and len(self._readers) >= _MOST_BLOCKS:
                self._readers.clear()
            self._reader = found or self._made(*wanted)
        return self._reader

    def _made(self, block: bytes | None, sourced: bool, flattened: bool, loose: bool) -> RowReader:
        fields = None
        if block is not None:
            fields = row_block_fields(block) if flattened else block_fields(block)
        reader = RowReader(self.layout, fields, sourced, loose)
        reader.native = block is not None and is_avro_block(block)
        self._readers[block, sourced, flattened, loose] = reader
        return reader

    def _complete_document(self, document: DocumentChange, change: Change) -> None:
        """Says what an update of some fields does not carry; rejects one of parts of a field."""
        change.snapshot, change.snapshot_last = None, False
        if document.problem is not None:
            _reject(change, ILLEGAL_CHANGE, document.problem)
        elif document.partial and change.reason is None:
            carried = {name.lower() for name in document.envelope.after or ()}
            names = [c.name for at, c in enumerate(self.columns) if at not in self.layout.keys]
            kept = [n for n in names if is_published(self.layout.table, n)]
            change.absent = [name for name in kept if name.lower() not in carried] or None

    def _read_upsert(
        self, record: Record, envelope: Envelope, reader: RowReader, change: Change
    ) -> None:
        after = envelope.after
        if after is None:
            message = f"found op {envelope.op} without after, expected a row"
            _reject(change, ILLEGAL_CHANGE, message)
        elif not self.layout.keys:
            self._read_keyless(after, envelope, reader, change)
        else:
            self._read_keyed(after, record, envelope, reader, change)

    def _read_keyed(
        self, after: Row, record: Record, envelope: Envelope, reader: RowReader, change: Change
    ) -> None:
        plan = reader.plan(after)
        old_key = None if record.headers is None else old_key_row(record.headers)
        row = after
        if plan.large and may_hold_placeholders(record, envelope, old_key is not None):
            row = self._without_placeholders(after, plan, change)
        values, misfits = self._converted(plan.readings, row)
        missing = self._missing_keys(values, misfits)
        if missing:
            self._fill_keys(values, misfits, missing, self._other_keys(record, envelope, reader))
        change.values = values
        if old_key is not None:
            change.old_key = self._key_json(old_key, reader)
        if missing or misfits or plan.odd:
            self._judge(change, plan, after, misfits)

    def _read_delete(
        self, record: Record, envelope: Envelope, reader: RowReader, change: Change
    ) -> None:
        if not self.layout.keys:
            self._read_keyless(envelope.before, envelope, reader, change)
            return
        values: Values = [None] * len(self.columns)
        misfits: Misfits = {}
        others = self._other_keys(record, envelope, reader)
        self._fill_keys(values, misfits, list(self.layout.keys), others)
        change.values = values
        self._judge_values(change, misfits)

    def _read_keyless(
        self, row: Row | None, envelope: Envelope, reader: RowReader, change: Change
    ) -> None:
        """Reads a row of a table without keys, and the whole old row in `before`."""
        before = envelope.before
        if row is None or (before is None and envelope.op == "u"):
            _reject(change, NO_KEY, _no_key("the old row in before (REPLICA IDENTITY FULL)"))
            return
        plan = reader.plan(row)
        change.values, misfits = self._converted(plan.readings, row)
        if before is not None:
            old, _ = self._converted(reader.plan(before).readings, before)
            change.old_key = row_json(self.columns, old)
        self._judge(change, plan, row, misfits)

    def _without_placeholders(self, after: Row, plan: RowPlan, change: Change) -> Row:
        """The row with null for the values that the record does not carry, which are noted."""
        match = self.placeholders.match
        fields = [field for field, _ in plan.large if match(after[field])]
        if not fields:
            return after
        names = [name for field, name in plan.large if field in fields]
        change.absent = [name for name in names if is_published(self.layout.table, name)] or None
        return after | dict.fromkeys(fields)

    def _converted(self, readings: Iterable[Reading], row: Row) -> tuple[Values, Misfits]:
        """The values of a row, by the place of their column."""
        values: Values = [None] * len(self.columns)
        try:
            for field, at, convert in readings:
                value = row[field]
                if value is not None:
                    values[at] = convert(value)
        except Misfit:
            return self._converted_one_by_one(readings, row)
        return values, {}

    def _converted_one_by_one(
        self, readings: Iterable[Reading], row: Row
    ) -> tuple[Values, Misfits]:
        values: Values = [None] * len(self.columns)
        misfits: Misfits = {}
        for field, at, convert in readings:
            value = row[field]
            try:
                values[at] = values[at] if value is None else convert(value)
            except Misfit:
                misfits[at] = value
        return values, misfits

    def _missing_keys(self, values: Values, misfits: Misfits) -> list[int]:
        return [at for at in self.layout.keys if values[at] is None and at not in misfits]

    def _other_keys(
        self, record: Record, envelope: Envelope, reader: RowReader
    ) -> Iterator[tuple[int, object, Converter]]:
        """Where keys are looked for besides `after`: of `before` only those of a deleted row.

        Yields the place of a key, its value there, and what converts it.
        """
        yield from _keys_in(key_row(record.key), reader)
        if envelope.op == "d":
            yield from _keys_in(envelope.before, reader)
        if len(self.layout.keys) == 1 and envelope.pk is not None:
            yield from _keys_in({self.layout.table.keys[0]: envelope.pk}, reader)

    def _fill_keys(
        self,
        values: Values,
        misfits: Misfits,
        missing: list[int],
        found: Iterable[tuple[int, object, Converter]],
    ) -> None:
        """Takes each missing key from the first place that has it."""
        for at, value, convert in found:
            if at in missing:
                missing.remove(at)
                try:
                    values[at] = convert(value)
                except Misfit:
                    misfits[at] = value
            if not missing:
                return

    def _key_json(self, row: Row, reader: RowReader) -> str:
        values, _ = self._converted(reader.plan(row).keys, row)
        keys = self.layout.keys
        return row_json([self.columns[at] for at in keys], [values[at] for at in keys])

    def _judge(self, change: Change, plan: RowPlan, row: Row, misfits: Misfits) -> None:
        """Rejects a row that cannot be applied; marks one that the columns do not fit."""
        layout = self.layout
        grows = layout.grows and len(row) <= layout.room
        shows_more = any(row[field] is not None for field in plan.unknown)
        if plan.unlike or (shows_more and grows):
            change.unlike = True
        unfit = plan.unfit or (shows_more and not grows)
        self._judge_values(change, misfits, unfit and change.operation == UPSERT)

    def _judge_values(self, change: Change, misfits: Misfits, unfit: bool = False) -> None:
        if any(change.values[at] is None and at not in misfits for at in self.layout.keys):
            _reject(change, NO_KEY, _no_key(", ".join(self.layout.table.keys)))
        elif unfit:
            _reject(change, INCOMPATIBLE_SCHEMA, UNFIT)
        elif misfits:
            self._reject_misfits(change, misfits)

    def _reject_misfits(self, change: Change, misfits: Misfits) -> None:
        columns = {at: self.columns[at] for at in sorted(misfits)}
        sensitive = {n for n, c in self.layout.table.columns.items() if c.sensitive}
        found = [
            misfit_message(c.name, misfits[at], c.type, c.name in sensitive)
            for at, c in columns.items()
        ]
        if not self.layout.columns.settled and any(c.provisional for c in columns.values()):
            change.unlike = True
        declared = all(c.declared for c in columns.values())
        _reject(change, BAD_VALUE if declared else INCOMPATIBLE_SCHEMA, "; ".join(found))

    def _check_required(self, change: Change) -> None:
        absent = change.absent or ()
        for at in self._required:
            name = self.columns[at].name
            if change.values[at] is None and name not in absent:
                message = f"column {name}: found null, expected a value (nullable: false)"
                _reject(change, BAD_VALUE, message)
                return


def operation_of(envelope: Envelope) -> str | None:
    """The operation of an envelope; None for an unknown one."""
    op = envelope.op
    if isinstance(op, str):
        return _OPERATIONS.get(op)
    has_row = envelope.after is not None or envelope.before is not None
    if op is not None or has_row:
        return None
    marks = (envelope.ddl, envelope.ts_ms)
    is_marker = envelope.status in _MARKERS or any(mark is not None for mark in marks)
    return NONE if is_marker else None


def _keys_in(row: Row | None, reader: RowReader) -> Iterator[tuple[int, object, Converter]]:
    """The keys in a row that are not null: place, value and converter."""
    if row:
        for field, at, convert in reversed(reader.plan(row).keys):
            if row[field] is not None:
                yield at, row[field], convert


def _check_order(record: Record, envelope: Envelope, change: Change) -> None:
    """Rejects a change without a place in order; no log has a record at a negative offset."""
    if record.offset is not None and record.offset < 0:
        _reject(change, BAD_SEQUENCE, f"found offset {record.offset}, expected one from 0")
    elif change.sequence is None:
        given = {} if envelope.source is None else msgspec.structs.asdict(envelope.source)
        source = json_text({name: v for name, v in given.items() if v is not None})
        message = f"found source {source[:_SHOWN_OF_SOURCE]}, expected a position"
        _reject(change, BAD_SEQUENCE, message)


def _no_key(names: str) -> str:
    return f"found no value for {names}, expected one in after, the record's key or before"


def _reject(change: Change, reason: str, message: str) -> None:
    """Makes the change a dead letter."""
    change.operation, change.absent = None, None
    change.reason, change.message = reason, message
