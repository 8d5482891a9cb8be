"""Debezium records as changes.

c, u and r are upserts, d deletes, t truncates; logical messages, heartbeats, transaction markers,
schema records and log-compaction tombstones carry no change. Values are read by the record's own
schema block, else by the column's type. A new version of a row comes from `after` alone; of
`before` no more than the key is read, unless the table has no key: then it must be the whole old
row.
"""

from collections.abc import Iterator, Sequence

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
    describe_failure,
)
from silver.decode.columns import UNFIT, Columns, is_published
from silver.decode.debezium.change_columns import ChangeColumns
from silver.decode.debezium.events.connectors import has_position
from silver.decode.debezium.events.envelope import (
    Envelope,
    Row,
    key_row,
    name_key_values,
    old_key_row,
    operation_of,
)
from silver.decode.debezium.events.flattened import is_key_alone, ordered_event
from silver.decode.debezium.events.log_follower import (
    LogFollower,
    SeenChange,
    join_changes,
    see_changes,
    see_plain,
)
from silver.decode.debezium.events.opening import FLATTENED, REWRITTEN, Opened, record_opener
from silver.decode.debezium.events.order import (
    BY_ARRIVAL,
    OF_TABLE,
    arrival_order,
    handled_at,
    ordered_change,
)
from silver.decode.debezium.events.placeholders import may_hold_placeholders
from silver.decode.debezium.refusals import (
    KEY_ALONE,
    MIXED,
    Event,
    check_change,
    check_key,
    complete_document,
    no_key,
    not_json,
    reject,
    reject_misfits,
    unknown_operation,
)
from silver.decode.debezium.rows import (
    Misfits,
    RowPlan,
    RowReader,
    TableLayout,
    Values,
    convert_row,
)
from silver.decode.debezium.slices import SliceReader
from silver.decode.debezium.traits import Traits
from silver.decode.slices import ReadPart, Slice, join_parts
from silver.decode.types import Misfit
from silver.decode.values.json_values import NotJson, text_of

_MOST_BLOCKS = 256
_MOST_IN_VAIN, _LEAST = 2, 10
"""Slices in a row of which less than one part in ten was plain; then no others are expected."""
_NO_NULLS: frozenset[int] = frozenset()

_Wanted = tuple[bytes | None, bool, bool, bool]
"""A schema block, and whether a source block, a flattened event or a document is described."""


class DebeziumDecoder:
    """Decodes the records of one table."""

    def __init__(self, table: Table, columns: Columns) -> None:
        self.layout = layout = TableLayout(table, columns)
        self._arrives_in_order = columns.order == BY_ARRIVAL and not columns.settled
        nullable = table.nullable_keys
        self._nullable = frozenset(at for at in layout.keys if layout.columns[at].name in nullable)
        others = [column for at, column in enumerate(layout.columns) if at not in layout.keys]
        published = [column for column in others if is_published(table, column.name)]
        self._published = [column.name for column in published]
        self._has_columns = any(column.declared for column in published)
        self._shared = [one.at for one in layout.origins if one.at in layout.keys]
        self.opener = record_opener(table, columns)
        self._traits = Traits(table, columns, self.opener.open_key)
        self._shows_form = self.opener.form is None and not columns.settled
        self._only_flattened = self.opener.form in (FLATTENED, REWRITTEN)
        self._readers: dict[_Wanted, RowReader] = {}
        self._follower = LogFollower(columns.reached)
        self._columns = ChangeColumns(table, columns)
        self._in_vain = 0
        self._newest: _Wanted = (None, True, False, False)
        self._reader = self._readers[self._newest] = RowReader(layout, *self._newest)
        self._slices = self._make_slice_reader()

    def _make_slice_reader(self) -> SliceReader | None:
        """What reads slices; None where each record has to be decoded alone."""
        layout = self.layout
        if not layout.keys or self._nullable or layout.origins or self._arrives_in_order:
            return None
        if self._traits.looks_into_values and not layout.known.settled:
            return None
        return SliceReader(layout, self.opener, self._traits, self.reader_of)

    def read(self, records: Slice) -> ReadPart:
        """The changes that the records of a slice say; one that cannot be read is a dead letter."""
        plain, rest = self._read_plain(records), list[int]()
        if len(plain.places) < records.part.num_rows:
            rest = sorted({*range(records.part.num_rows)}.difference(plain.places))
        seen = [see_plain(plain)] if plain.places else []
        parts = [plain._replace(facts=())] if plain.places else []
        if rest:
            alone: list[SeenChange] = []
            given = zip(rest, records.records(rest), strict=True)
            changes = [self._decode_record(at, record, alone) for at, record in given]
            parts.append(ReadPart(rest, self._columns.build(changes)))
            seen += [see_changes(alone)] if alone else []
        if seen:
            self._follower.follow(join_changes(records.part, seen))
        return join_parts(parts)

    def segments(self) -> str | None:
        """The segments of the source's log that the records so far make, as JSON."""
        return self._follower.segments()

    def _read_plain(self, records: Slice) -> ReadPart:
        """The plain changes of a slice; none after two slices in a row with few of them."""
        nothing = ReadPart([], {})
        if self._slices is None or self._in_vain == _MOST_IN_VAIN:
            return nothing
        plain = self._slices.read(records) or nothing
        is_vain = _LEAST * len(plain.places) < records.part.num_rows
        self._in_vain = self._in_vain + 1 if is_vain else 0
        return plain

    def _decode_record(self, at: int, record: Record, seen: list[SeenChange]) -> Change:
        """The change of a record; an error that nobody foresaw costs that record alone."""
        try:
            return self._decode(at, record, seen)
        except Exception as error:  # a defect must cost one record, never the task with all others
            return Change(None, (), reason=BAD_VALUE, message=describe_failure(error))

    def _decode(self, at: int, record: Record, seen: list[SeenChange]) -> Change:
        """The change that a record says; where it says one, it is added to those seen."""
        try:
            opened = self.opener.open(record)
        except NotAvro as error:
            return Change(None, snapshot_last=False, reason=NOT_AVRO, message=str(error))
        except NotJson:
            return not_json(record)
        envelope = opened.envelope
        if envelope is None:
            return Change(NONE, snapshot_last=False)
        change, reader = self._order_change(record, envelope, opened)
        event, operation = Event(record, envelope, change), change.operation
        if operation == NONE:
            change.sequence = None
            return change
        order = change.sequence, change.source_time, bool(change.snapshot)
        seen.append(SeenChange(at, envelope.op == "r", envelope.source, *order))
        if operation in (UPSERT, DELETE):
            self._read_row(event, reader)
        elif operation is None:
            reject(change, UNKNOWN_OPERATION, unknown_operation(record, envelope))
        self._check_event(event, opened)
        return change

    def _check_event(self, event: Event, opened: Opened) -> None:
        """Rejects a change that cannot be applied, whatever its row is."""
        record, envelope, change = event
        if opened.document is not None:
            complete_document(opened.document, change, self._published, self.layout)
        is_full = opened.rewrites is None
        if self._only_flattened and is_full and envelope.op is not None:
            reject(change, UNKNOWN_OPERATION, MIXED)
        is_row = not is_full and change.operation == UPSERT and self._has_columns
        if is_row and is_key_alone(envelope.after or {}, self.layout.table, record):
            reject(change, ILLEGAL_CHANGE, KEY_ALONE)
        check_change(event, self.layout)
        if change.operation == UPSERT:
            self._check_required(change)

    def _check_required(self, change: Change) -> None:
        """Rejects a change whose row has a null where the table allows none."""
        for at in self.layout.required:
            name = self.layout.columns[at].name
            if change.values[at] is None and name not in (change.absent or ()):
                message = f"column {name}: found null, expected a value (nullable: false)"
                reject(change, BAD_VALUE, message)
                return

    def reader_of(
        self, block: bytes | None, sourced: bool, flattened: bool, loose: bool = False
    ) -> RowReader:
        """What reads the rows that a schema block describes."""
        wanted = block, sourced, flattened, loose
        if wanted != self._newest:
            if wanted not in self._readers and len(self._readers) >= _MOST_BLOCKS:
                self._readers.clear()
            reader = self._readers.get(wanted) or RowReader(self.layout, *wanted)
            self._newest, self._readers[wanted] = wanted, reader
            self._reader = reader
        return self._reader

    def _order_change(
        self, record: Record, envelope: Envelope, opened: Opened
    ) -> tuple[Change, RowReader]:
        """The change without values yet, with its place in order; and what reads its rows."""
        rewrites, operation = opened.rewrites, operation_of(envelope)
        if rewrites is None:
            change = ordered_change(envelope, operation)
            is_sourced = envelope.source is not None
            reader = self.reader_of(opened.block, is_sourced, False, opened.document is not None)
        else:
            change = ordered_event(envelope, rewrites, record, operation)
            reader = self.reader_of(opened.block, True, True)
        change.mismatched = reader.mismatched or (rewrites is not None and self._shows_form)
        if operation in (None, NONE):
            return change, reader
        columns = self.layout.known
        if not columns.settled:
            change.mismatched |= self._traits.look_again(envelope, record, opened.block)
        if rewrites is not None:
            return change, reader
        if change.sequence is not None:
            change.mismatched |= self._arrives_in_order
        elif columns.order in (None, BY_ARRIVAL) and not has_position(envelope.source):
            change.sequence = arrival_order(record, envelope)
            change.mismatched |= columns.order is None and not columns.settled
        return change, reader

    def _read_row(self, event: Event, reader: RowReader) -> None:
        """Reads the row of an upsert, or of a delete as much as the table keeps of it."""
        envelope, change = event.envelope, event.change
        if change.operation == UPSERT and envelope.after is None:
            message = f"found op {envelope.op} without after, expected a row"
            reject(change, ILLEGAL_CHANGE, message)
        elif self.layout.keys:
            self._read_keyed(event, reader)
        else:
            self._read_keyless(event, reader)
        if self._shared and change.snapshot is not None and change.values:
            table = ".".join([text_of(change.values[at]) for at in self._shared])
            change.snapshot = f"{change.snapshot.partition(OF_TABLE)[0]}{OF_TABLE}{table}"

    def _read_keyed(self, event: Event, reader: RowReader) -> None:
        """Reads the row of a table with keys: `after`; of a delete the key alone."""
        record, envelope, change = event
        row, headers = envelope.after or {}, record.headers
        if change.operation == DELETE:
            row, headers = {}, None
        plan = reader.plan(row)
        old_key = old_key_row(headers)
        if plan.large and may_hold_placeholders(record, envelope, old_key is not None):
            row = self._without_placeholders(row, plan, change)
        values, misfits = self._convert_row(event, plan, row)
        missing = [at for at in self.layout.keys if values[at] is None and at not in misfits]
        nulls = _NO_NULLS
        if missing:
            nulls = self._find_null_keys(event, reader, row)
            self._fill_keys(event, reader, values, misfits, missing)
        change.values = values
        if old_key is not None:
            misfits = self._read_old_key(change, old_key, reader) | misfits
        if missing or misfits or plan.unknown or plan.unfit or plan.mismatched:
            self._judge_row(change, plan, row, misfits, nulls)
        check_key(event, plan.keys, self.layout)

    def _read_keyless(self, event: Event, reader: RowReader) -> None:
        """Reads a row of a table without keys, and the whole old row in `before`."""
        record, envelope, change = event
        before = envelope.before
        row = before if change.operation == DELETE else envelope.after
        if row is None or (before is None and envelope.op == "u"):
            reject(change, NO_KEY, no_key("the old row in before (REPLICA IDENTITY FULL)"))
            return
        plan = reader.plan(row)
        change.values, misfits = self._convert_row(event, plan, row)
        change.handled_at = handled_at(record, envelope)
        if before is not None:
            old, misfits_before = self._convert_row(event, reader.plan(before), before)
            change.old_key = self.layout.json_of(old, range(len(old)))
            misfits = misfits_before | misfits
        self._judge_row(change, plan, row, misfits, _NO_NULLS)

    def _convert_row(self, event: Event, plan: RowPlan, row: Row) -> tuple[Values, Misfits]:
        values, misfits = convert_row(plan.readings, row, len(self.layout.columns))
        if self.layout.origins:
            misfits |= self.layout.read_origins(values, event.envelope, event.record)
        return values, misfits

    def _without_placeholders(self, row: Row, plan: RowPlan, change: Change) -> Row:
        """The row with null for values that the record does not carry; sets `change.absent`."""
        match = self.layout.placeholders.match
        absent = {one.field: one.at for one in plan.large if match(row[one.field])}
        if not absent:
            return row
        names = [self.layout.columns[at].name for at in absent.values()]
        change.absent = [name for name in names if is_published(self.layout.table, name)] or None
        return row | dict.fromkeys(absent)

    def _fill_keys(
        self, event: Event, reader: RowReader, values: Values, misfits: Misfits, missing: list[int]
    ) -> None:
        """Takes each missing key from the first row that has it."""
        for row in self._rows_with_keys(event):
            for field, at, convert, _ in reversed(reader.plan(row).keys):
                if at in missing and row[field] is not None:
                    missing.remove(at)
                    try:
                        values[at] = convert(row[field])
                    except Misfit:
                        misfits[at] = row[field]
            if not missing:
                return

    def _rows_with_keys(self, event: Event) -> Iterator[Row]:
        """Where keys are looked for besides `after`: `before` only of a deleted row."""
        record, envelope, _ = event
        yield key_row(record.key) or {}
        if envelope.op == "d":
            yield envelope.before or {}
        yield name_key_values(record, envelope, self.layout.table) or {}

    def _find_null_keys(self, event: Event, reader: RowReader, row: Row) -> frozenset[int]:
        """The keys that may be null and of which a row has a null."""
        if not self._nullable:
            return _NO_NULLS
        rows: Sequence[Row | None] = (row,)
        if event.change.operation == DELETE:
            rows = key_row(event.record.key), event.envelope.before
        return self._nullable & {key.at for row in rows if row for key in reader.plan(row).keys}

    def _read_old_key(self, change: Change, row: Row, reader: RowReader) -> Misfits:
        """Reads the key that a row had before; a key that is no field keeps its new value."""
        values, misfits = convert_row(reader.plan(row).keys, row, len(change.values))
        for at in self.layout.taken:
            values[at] = change.values[at]
        change.old_key = self.layout.json_of(values, self.layout.keys)
        return misfits

    def _judge_row(
        self, change: Change, plan: RowPlan, row: Row, misfits: Misfits, nulls: frozenset[int]
    ) -> None:
        """Rejects a row that cannot be applied; marks one that the columns do not fit.

        A key of which a part is missing or misfits is left out where a null makes it another key.
        """
        layout, values = self.layout, change.values
        is_unfit = self._is_unfit(change, plan, row)
        lacking = [at for at in layout.keys if values[at] is None and at not in nulls]
        if {*lacking} - misfits.keys():
            reject(change, NO_KEY, no_key(", ".join(layout.table.keys)))
        elif is_unfit:
            reject(change, INCOMPATIBLE_SCHEMA, UNFIT)
        elif misfits:
            reject_misfits(change, misfits, layout)
        if lacking and self._nullable:
            change.values = [None if at in layout.keys else v for at, v in enumerate(values)]

    def _is_unfit(self, change: Change, plan: RowPlan, row: Row) -> bool:
        """Whether a new row has a field that can be no column; marks the change if one can."""
        layout = self.layout
        shows_more = any(row[field] is not None for field in plan.unknown)
        grows = shows_more and layout.grows and len(row) <= layout.room
        change.mismatched |= plan.mismatched or grows
        return change.operation == UPSERT and (plan.unfit or shows_more != grows)
