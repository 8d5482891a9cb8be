"""Debezium records as changes.

c, u and r are upserts, d deletes, t truncates; logical messages, heartbeats, transaction markers,
schema records and log-compaction tombstones carry no change. Values are read by the record's own
schema block, else by the column's type. A new version of a row comes from `after` alone; of
`before` no more than the key is read, unless the table has no key: then it must be the whole old
row.
"""

from collections.abc import Iterable, Iterator

from lakehouse.config.table import Table
from silver.contract import DELETE, NONE, UPSERT
from silver.decode.avro.binary import NotAvro
from silver.decode.change import (
    BAD_VALUE,
    ILLEGAL_CHANGE,
    INCOMPATIBLE_SCHEMA,
    NO_KEY,
    NOT_AVRO,
    UNKNOWN_OPERATION,
    Change,
    Record,
)
from silver.decode.columns import UNFIT, Columns, is_published, required_columns
from silver.decode.debezium.envelope_columns import EnvelopeColumns
from silver.decode.debezium.events.connectors import has_position
from silver.decode.debezium.events.envelope import (
    Envelope,
    Row,
    bare_key_row,
    key_row,
    old_key_row,
    operation_of,
)
from silver.decode.debezium.events.flattened import ordered_event
from silver.decode.debezium.events.log_follower import LogFollower
from silver.decode.debezium.events.opening import (
    FLATTENED,
    REWRITTEN,
    record_opener,
)
from silver.decode.debezium.events.order import (
    BY_ARRIVAL,
    BY_SOURCE,
    OF_TABLE,
    arrival_order,
    handled_at,
    ordered_change,
)
from silver.decode.debezium.events.placeholders import Placeholders, may_hold_placeholders
from silver.decode.debezium.evidence import NewEvidence
from silver.decode.debezium.old_rows import row_json
from silver.decode.debezium.refusals import (
    Misfits,
    check_change,
    check_key,
    complete_document,
    no_key,
    not_json,
    reject,
    reject_misfits,
    unknown_operation,
)
from silver.decode.debezium.row_plans import RowPlan, RowReader, TableLayout, keys_in
from silver.decode.debezium.row_values import convert_row
from silver.decode.debezium.slice_shapes import SliceTools
from silver.decode.debezium.slices import SliceReader
from silver.decode.slices import ReadPart, Slice
from silver.decode.types import Misfit
from silver.decode.values.encodings import (
    block_fields,
    is_avro_block,
    row_block_fields,
)
from silver.decode.values.json_values import NotJson, text_of
from silver.decode.values.numbers import Converter

_MOST_BLOCKS = 256
_NO_NULLS: frozenset[int] = frozenset()
_MIXED = (
    "found a full envelope among flattened events, expected events of one form in a feed "
    "(source.envelope says which)"
)

Values = list[object]

_Wanted = tuple[bytes | None, bool, bool, bool]
"""A schema block, and whether a source block, a flattened event or a document is described."""


class DebeziumDecoder:
    """Decodes the records of one table."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self.layout = TableLayout(table, columns)
        self.columns = columns.columns
        self.placeholders = Placeholders(self.layout.source.unavailable_value)
        required = required_columns(table)
        self._required = [at for at, c in enumerate(self.columns) if c.name in required]
        self._arrives_in_order = columns.order == BY_ARRIVAL and not columns.settled
        nullable = table.nullable_keys
        self._nullable = {at for at in self.layout.keys if self.columns[at].name in nullable}
        others = [c.name for at, c in enumerate(self.columns) if at not in self.layout.keys]
        self._published = [name for name in others if is_published(table, name)]
        self._extras = EnvelopeColumns(table, columns)
        self._shared = [at for at in self._extras.places if at in self.layout.keys]
        self.opener = record_opener(table, columns)
        self._news = NewEvidence(table, columns, self.opener.open_key)
        self._shows_form = self.opener.form is None and not columns.settled
        self._only_flattened = self.opener.form in (FLATTENED, REWRITTEN)
        self._readers: dict[_Wanted, RowReader] = {}
        self.follower = LogFollower(columns.reached)
        self._newest: _Wanted = (None, True, False, False)
        self._reader = self._made(*self._newest)
        self._slices: SliceReader | None = None
        if self._reads_slices():
            own = (self.placeholders, self.follower, self._required, self.reader_of)
            self._slices = SliceReader(SliceTools(self.layout, self.opener, self._news, *own))

    def read(self, records: Slice) -> ReadPart | None:
        """Reads what needs no thought of a slice; all other records are decoded one by one."""
        return None if self._slices is None else self._slices.read(records)

    def follow(self, records: Slice, part: ReadPart, start: int, end: int) -> None:
        """Takes in changes `start` to `end` of a part, in the order of the slice's records."""
        if self._slices is not None:
            self._slices.follow(records, part, start, end)

    def _reads_slices(self) -> bool:
        """Whether changes of the table may need no thought."""
        settled = self.layout.columns.settled
        if not self.layout.keys or self._nullable or self._extras.readings:
            return False
        if self._arrives_in_order:
            return False
        return settled or not self._news.looks_into_values

    def decode(self, record: Record) -> Change:
        """The change that a record says; a record that cannot be read is a dead letter."""
        try:
            opened = self.opener.open(record)
        except NotAvro as error:
            return Change(None, snapshot_last=False, reason=NOT_AVRO, message=str(error))
        except NotJson:
            return not_json(record)
        envelope, block, event, document = opened
        if envelope is None:
            return Change(NONE, snapshot_last=False)
        operation = operation_of(envelope)
        if event is None:
            change = ordered_change(envelope, operation)
            wanted = block, envelope.source is not None, False, document is not None
            reader = self.reader_of(wanted)
        else:
            change = ordered_event(event, record, operation)
            reader = self.reader_of((block, True, True, False))
        change.unlike = reader.unlike or (event is not None and self._shows_form)
        if operation == NONE:
            change.sequence = None
            return change
        if operation is not None and not self.layout.columns.settled:
            change.unlike |= self._news.is_in(envelope, record, block)
        if event is None and change.sequence is None and operation is not None:
            self._order_by_arrival(record, envelope, change)
        elif event is None and self._arrives_in_order:
            change.unlike = True
        self.follower.see(record, envelope, change)
        if operation == UPSERT:
            self._read_upsert(record, envelope, reader, change)
            if self._shared and change.snapshot is not None and change.values:
                table = ".".join([text_of(change.values[at]) for at in self._shared])
                change.snapshot += f"{OF_TABLE}{table}"
        elif operation == DELETE:
            self._read_delete(record, envelope, reader, change)
        elif operation is None:
            reject(change, UNKNOWN_OPERATION, unknown_operation(record, envelope))
        if document is not None:
            complete_document(document, change, self._published)
        if event is None and self._only_flattened and envelope.op is not None:
            reject(change, UNKNOWN_OPERATION, _MIXED)
        check_change(record, envelope, change, self.layout.table)
        if change.reason is None and self._required and operation == UPSERT:
            self._check_required(change)
        return change

    def segments(self) -> str | None:
        """What the records decoded so far tell of the source's log."""
        return self.follower.segments()

    def _order_by_arrival(self, record: Record, envelope: Envelope, change: Change) -> None:
        """Gives a change without a position its place, unless others of its feed have positions."""
        columns = self.layout.columns
        if has_position(envelope.source) or columns.order == BY_SOURCE:
            return
        change.sequence = arrival_order(record)
        if columns.order is None and not columns.settled:
            change.unlike = True

    def reader_of(self, wanted: _Wanted) -> RowReader:
        """What reads the rows that a schema block describes."""
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

    def _read_upsert(
        self, record: Record, envelope: Envelope, reader: RowReader, change: Change
    ) -> None:
        after = envelope.after
        if after is None:
            message = f"found op {envelope.op} without after, expected a row"
            reject(change, ILLEGAL_CHANGE, message)
        elif not self.layout.keys:
            self._read_keyless(after, record, envelope, reader, change)
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
        values, misfits = convert_row(plan.readings, row, len(self.columns))
        if self._extras.readings:
            misfits = misfits | self._extras.fill(values, envelope, record)
        missing = self._missing_keys(values, misfits)
        if missing:
            self._fill_keys(values, misfits, missing, self._other_keys(record, envelope, reader))
        nulls = self._nulls(reader, after) if missing and self._nullable else _NO_NULLS
        change.values = values
        if old_key is not None:
            change.old_key, misfits_before = self._key_json(old_key, reader, values)
            misfits = misfits_before | misfits
        if missing or misfits or plan.odd:
            self._judge(change, plan, after, misfits, nulls)
        check_key(plan.keys, envelope, change, self.layout)

    def _read_delete(
        self, record: Record, envelope: Envelope, reader: RowReader, change: Change
    ) -> None:
        if not self.layout.keys:
            self._read_keyless(envelope.before, record, envelope, reader, change)
            return
        values: Values = [None] * len(self.columns)
        misfits: Misfits = {}
        others = self._other_keys(record, envelope, reader)
        if self._extras.readings:
            misfits = self._extras.fill(values, envelope, record)
        self._fill_keys(values, misfits, self._missing_keys(values, misfits), others)
        change.values = values
        rows = (key_row(record.key), envelope.before) if self._nullable else ()
        self._judge_values(change, misfits, self._nulls(reader, *rows))

    def _read_keyless(
        self,
        row: Row | None,
        record: Record,
        envelope: Envelope,
        reader: RowReader,
        change: Change,
    ) -> None:
        """Reads a row of a table without keys, and the whole old row in `before`."""
        before = envelope.before
        if row is None or (before is None and envelope.op == "u"):
            reject(change, NO_KEY, no_key("the old row in before (REPLICA IDENTITY FULL)"))
            return
        plan = reader.plan(row)
        values, misfits = convert_row(plan.readings, row, len(self.columns))
        if self._extras.readings:
            misfits = misfits | self._extras.fill(values, envelope, record)
        change.values, change.handled_at = values, handled_at(record, envelope)
        if before is not None:
            readings = reader.plan(before).readings
            old, misfits_before = convert_row(readings, before, len(self.columns))
            self._extras.fill(old, envelope, record)
            change.old_key = row_json(self.columns, old)
            misfits = misfits_before | misfits
        self._judge(change, plan, row, misfits, _NO_NULLS)

    def _without_placeholders(self, after: Row, plan: RowPlan, change: Change) -> Row:
        """The row with null for the values that the record does not carry, which are noted."""
        match = self.placeholders.match
        fields = [field for field, _ in plan.large if match(after[field])]
        if not fields:
            return after
        names = [name for field, name in plan.large if field in fields]
        change.absent = [name for name in names if is_published(self.layout.table, name)] or None
        return after | dict.fromkeys(fields)

    def _missing_keys(self, values: Values, misfits: Misfits) -> list[int]:
        return [at for at in self.layout.keys if values[at] is None and at not in misfits]

    def _other_keys(
        self, record: Record, envelope: Envelope, reader: RowReader
    ) -> Iterator[tuple[int, object, Converter]]:
        """Where keys are looked for besides `after`: of `before` only those of a deleted row.

        Yields the place of a key, its value there, and what converts it.
        """
        yield from keys_in(key_row(record.key), reader)
        if envelope.op == "d":
            yield from keys_in(envelope.before, reader)
        yield from keys_in(bare_key_row(record, envelope, self.layout.table.keys), reader)

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

    def _nulls(self, reader: RowReader, *rows: Row | None) -> frozenset[int]:
        """The keys that may be null and of which a row has a null."""
        shown = {at for row in rows if row for _, at, _ in reader.plan(row).keys}
        return frozenset(shown & self._nullable)

    def _key_json(self, row: Row, reader: RowReader, now: Values) -> tuple[str, Misfits]:
        """The key in a row as JSON; what is no field of the row is as it is `now`."""
        values, misfits = convert_row(reader.plan(row).keys, row, len(self.columns))
        for at in self._extras.places:
            values[at] = now[at]
        keys = self.layout.keys
        text = row_json([self.columns[at] for at in keys], [values[at] for at in keys])
        return text, misfits

    def _judge(
        self, change: Change, plan: RowPlan, row: Row, misfits: Misfits, nulls: frozenset[int]
    ) -> None:
        """Rejects a row that cannot be applied; marks one that the columns do not fit."""
        layout = self.layout
        grows = layout.grows and len(row) <= layout.room
        shows_more = any(row[field] is not None for field in plan.unknown)
        if plan.unlike or (shows_more and grows):
            change.unlike = True
        unfit = plan.unfit or (shows_more and not grows)
        self._judge_values(change, misfits, nulls, unfit and change.operation == UPSERT)

    def _judge_values(
        self, change: Change, misfits: Misfits, nulls: frozenset[int], unfit: bool = False
    ) -> None:
        known, keys = misfits.keys() | nulls, self.layout.keys
        if any(change.values[at] is None and at not in known for at in keys):
            reject(change, NO_KEY, no_key(", ".join(self.layout.table.keys)))
        elif unfit:
            reject(change, INCOMPATIBLE_SCHEMA, UNFIT)
        elif misfits:
            reject_misfits(change, misfits, self.layout)
        if self._nullable and any(change.values[at] is None and at not in nulls for at in keys):
            self._forget_key(change)

    def _forget_key(self, change: Change) -> None:
        """Leaves out a key of which a part is missing or misfits: with nulls it is another key."""
        kept = enumerate(change.values)
        change.values = [None if at in self.layout.keys else value for at, value in kept]

    def _check_required(self, change: Change) -> None:
        absent = change.absent or ()
        for at in self._required:
            name = self.columns[at].name
            if change.values[at] is None and name not in absent:
                message = f"column {name}: found null, expected a value (nullable: false)"
                reject(change, BAD_VALUE, message)
                return
