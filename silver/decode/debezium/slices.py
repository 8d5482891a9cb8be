"""Debezium's records by slices: those of few shapes become columns, without a call for each value.

Read so are changes with a position at the source, whose rows have the fields of the first such
record and values that fit. All others, dead letters among them, are left to the decoder.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from silver.contract import DELETE, UPSERT
from silver.decode.avro.ahead import alike_records, read_envelopes
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.schemas import decode_avro, writer_of
from silver.decode.change import Record
from silver.decode.debezium.events.envelope import (
    OLD_KEY_HEADER,
    SourceBlock,
    SourceColumns,
    Transaction,
    key_row,
)
from silver.decode.debezium.events.flattened import PREFIX, AddedMembers
from silver.decode.debezium.events.opening import FLATTENED, REWRITTEN, AvroOpener, Opener
from silver.decode.debezium.events.order import Places, find_places
from silver.decode.debezium.refusals import TYPED_ROW, are_plain, shows_old_key
from silver.decode.debezium.rows import (
    EventShape,
    RowPlan,
    RowReader,
    TableLayout,
    event_type,
)
from silver.decode.debezium.traits import Traits
from silver.decode.shapes import Parsed, RowShape, can_be_fields, parse_alike, parser_of_shape
from silver.decode.slices import ReadPart, Slice, join_parts, read_shapes
from silver.decode.values.bulk import convert_column, kinds_of
from silver.decode.values.encodings import block_fields
from silver.decode.values.json_values import NotJson
from silver.decode.wrapped import OpenedRow, open_row

_PARTS = ("op", "source", "transaction", "after", "before")
_UTC = pa.timestamp("us", tz="UTC")

_Members = Sequence[Sequence[Any]]
"""The members `_PARTS` of events: one list for each, with an entry per record."""


class _Rows(NamedTuple):
    """The rows of some records, one entry per record; a deleted row has its keys alone."""

    places: Sequence[int]
    ops: Sequence[str]
    sources: SourceColumns
    transactions: Sequence[Transaction | None]
    rows: Sequence[Any]

    def only(self, fits: Sequence[object]) -> "_Rows":
        """Those whose `fits` is true."""
        lists: tuple[Sequence[Any], ...] = self
        places, ops, blocks, *others = [list(compress(one, fits)) for one in lists]
        return _Rows(places, ops, SourceColumns(blocks), *others)


class SliceReader:
    """Reads slices of one table as its decoder would read their records."""

    def __init__(
        self,
        layout: TableLayout,
        opener: Opener,
        traits: Traits,
        reader_of: Callable[..., RowReader],
    ) -> None:
        self._layout, self._opener, self._traits = layout, opener, traits
        self._reader_of = reader_of
        self._is_avro = isinstance(opener, AvroOpener)
        self._flattened = opener.form in (FLATTENED, REWRITTEN)
        self._find_shape = lru_cache(maxsize=None)(self._make_shape)

    def read(self, records: Slice) -> ReadPart | None:
        """Reads the plain records, which have few shapes."""
        if self._is_avro and self._flattened:
            return None
        places = self._usual_places(records)
        if self._is_avro:
            return self._read_avro(records, places)

        def read(shape: EventShape, left: list[int]) -> ReadPart:
            parsed = self._parse_records(records, shape, left)
            return self._build_part(records, shape, *self._members_of(shape, parsed))

        return read_shapes(places, lambda at: self._shape_of(records.record(at)), read)

    def _usual_places(self, records: Slice) -> list[int]:
        """The places of texts with no odd offset, and with no header that counts."""
        if self._is_avro:
            places = [at for at, raw in enumerate(records.column("_raw")) if raw is not None]
        else:
            places = records.places
        if records.has_any("_headers"):
            mark = (PREFIX if self._flattened else OLD_KEY_HEADER).encode()
            headers = records.column("_headers")
            places = [at for at in places if headers[at] is None or mark not in headers[at]]
        if records.has_any("_offset"):
            offsets = records.column("_offset")
            places = [at for at in places if offsets[at] is None or offsets[at] >= 0]
        return places

    def _read_avro(self, records: Slice, places: list[int]) -> ReadPart | None:
        """Reads the envelopes of each schema together."""
        texts, headers = records.column("_raw"), records.column("_headers")
        given = [texts[at] for at in places], [headers[at] for at in places]
        parts = [
            self._read_schema(records, id, start, [places[nth] for nth in nths])
            for (id, start), nths in alike_records(*given).items()
            if id in self._layout.known.schemas
        ]
        kept = [part for part in parts if part is not None]
        return join_parts(kept) if kept else None

    def _read_schema(
        self, records: Slice, id: str, start: int, places: list[int]
    ) -> ReadPart | None:
        """Reads the envelopes that one schema wrote."""
        texts = records.column("_raw")
        try:
            writer = writer_of(self._layout.known.schemas[id])
        except NotAvro:
            return None
        read = read_envelopes(writer, start, [texts[at] for at in places])
        if read is None:
            return None
        shape = self._find_shape(writer.text, tuple(block_fields(writer.text)), b"")
        if shape is None:
            return None
        members, broken = read
        parts = [members.get(name, [None] * len(places)) for name in _PARTS]
        if any(broken):
            sound = [not one for one in broken]
            parts = [list(compress(part, sound)) for part in parts]
            places = list(compress(places, sound))
        return self._build_part(records, shape, places, parts)

    def _shape_of(self, record: Record) -> EventShape | None:
        """The shape of a record; None where it has to be decoded alone."""
        try:
            row, block = self._open_row(record)
        except (NotJson, NotAvro):
            return None
        prefix = b"" if block is None else b'{"schema":' + block + b',"payload":'
        if not row or not (record.raw or b"").startswith(prefix):
            return None
        return self._find_shape(block, tuple(row), prefix)

    def _open_row(self, record: Record) -> OpenedRow:
        if self._flattened:
            return open_row(record)
        envelope, block, rewrites, document = self._opener.open(record)
        if envelope is None or rewrites is not None or document is not None:
            return OpenedRow(None, None)
        return OpenedRow(envelope.before if envelope.after is None else envelope.after, block)

    def _make_shape(
        self, block: bytes | None, names: tuple[str, ...], prefix: bytes
    ) -> EventShape | None:
        """The shape of records with these fields; None where they have to be decoded alone."""
        row_names = [name for name in names if not name.startswith(PREFIX)]
        plan = self._reader_of(block, True, self._flattened).plan(row_names)
        fields = self._key_fields(plan)
        if fields is None or not can_be_fields(names):
            return None
        added = AddedMembers(names) if self._flattened else None
        if added is not None and (len(row_names) == len(fields) or not added.are_plain):
            return None
        keys = {field: names.index(field) for field in fields}
        if self._is_avro:
            row = RowShape(names, tuples=True)
            return EventShape(row, row, plan, keys)
        in_bulk = [reading for reading in plan.readings if reading.bulk is not None]
        doubles = [one.field for one in in_bulk if self._layout.types[one.at] == pa.float64()]
        row = old = RowShape(names, doubles)
        if not self._flattened and self._layout.are_keys(fields):
            old = RowShape(fields, doubles, loose=True)
        type = row.struct if self._flattened else event_type(row.struct, old.struct, not prefix)
        return EventShape(row, old, plan, keys, prefix, added, parser_of_shape(type))

    def _key_fields(self, plan: RowPlan) -> list[str] | None:
        """The fields of the keys; None where such rows are decoded one by one."""
        fields = {reading.at: reading.field for reading in plan.readings}
        is_typed = len(plan.readings) == 1 and plan.readings[0].field.endswith(TYPED_ROW)
        is_odd = plan.mismatched or plan.unfit or is_typed or len(fields) < len(plan.readings)
        if is_odd or not self._layout.needed <= fields.keys():
            return None
        return [fields[at] for at in self._layout.keys]

    def _parse_records(self, records: Slice, shape: EventShape, places: list[int]) -> Parsed:
        """The records that have the shape, parsed."""
        texts, prefix = records.column("_raw"), shape.prefix
        if prefix:
            cut: list[bytes | None] = [None] * len(texts)
            for at in places:
                text = texts[at]
                if text.startswith(prefix) and text[-1:] == b"}":
                    cut[at] = text[len(prefix) : -1]
            texts = cut
        return parse_alike(shape.parse, texts, places)

    def _members_of(self, shape: EventShape, parsed: Parsed) -> tuple[Sequence[int], _Members]:
        """The members of the events that were parsed, and the places of these."""
        if shape.added is None:
            events = parsed.values
            both = [event.after for event in events], [event.before for event in events]
            places = [event.source for event in events], [event.transaction for event in events]
            return parsed.places, [[event.op for event in events], *places, *both]
        columns = shape.row.columns(parsed.values)
        if any(dict in kinds_of(column) for column in columns):
            # maybe cells, as Cassandra's connector writes them
            each = map(shape.row.values_of, parsed.values)
            parsed = parsed.only([dict not in map(type, values) for values in each])
            columns = shape.row.columns(parsed.values)
        rows, ops = parsed.values, shape.added.operations(columns)
        afters = [None if op == "d" else row for op, row in zip(ops, rows, strict=True)]
        befores = [row if op == "d" else None for op, row in zip(ops, rows, strict=True)]
        origins = shape.added.sources(columns), shape.added.transactions(columns)
        return parsed.places, [ops, *origins, afters, befores]

    def _build_part(
        self, records: Slice, shape: EventShape, places: Sequence[int], members: _Members
    ) -> ReadPart:
        """The changes of plain events whose values fit."""
        rows = self._select_rows(records, shape, places, members)
        given = shape.row.columns(rows.rows)
        ordered = _order_rows(records, shape, rows, given)
        by_name = dict(zip(shape.row.names, given, strict=True))
        odd = self._find_odd(shape, rows, by_name)
        if odd:
            fits = [at not in odd for at in range(len(rows.places))]
            rows, given = rows.only(fits), [list(compress(one, fits)) for one in given]
            ordered = Places._make(column.filter(pa.array(fits)) for column in ordered)
            by_name = dict(zip(shape.row.names, given, strict=True))
        columns: dict[str, pa.Array] = {}
        odd = set(_find_nulls(ordered.sequence))
        is_deleted = pa.array(map("d".__eq__, rows.ops), pa.bool_(), size=len(rows.ops))
        for field, at, convert, bulk in shape.plan.readings:
            own_type = self._layout.types[at]
            values, misfits = convert_column(by_name[field], convert, bulk, own_type)
            columns[self._layout.columns[at].name] = values
            odd.update(misfits)
            if values.null_count and at in self._layout.needed:
                lacking = values.is_null()
                if at not in self._layout.keys:
                    lacking = pc.and_not(lacking, is_deleted)
                odd.update(pc.indices_nonzero(lacking).to_pylist())
        columns["_operation"] = pc.if_else(is_deleted, DELETE, UPSERT)
        columns |= {f"_{name}": values for name, values in ordered._asdict().items()}
        columns["_source_time"] = ordered.source_time.cast(_UTC)
        reads = [op == "r" for op in rows.ops]
        part = ReadPart([*rows.places], columns, (reads, rows.sources))
        return part.only([at not in odd for at in range(len(rows.places))]) if odd else part

    def _select_rows(
        self, records: Slice, shape: EventShape, places: Sequence[int], members: _Members
    ) -> _Rows:
        """The rows of the plain events that carry a change."""
        ops, blocks, transactions, rows, befores = members
        if befores.count(None) < len(befores) or "d" in ops:
            keys = records.column("_key")
            parts = zip(places, ops, blocks, rows, befores, strict=True)
            rows = [*rows]
            for nth, (at, op, source, after, before) in enumerate(parts):
                if before is not None or op == "d":
                    rows[nth] = self._find_row(shape, keys[at], op, source, after, before)
        selected = _Rows(places, ops, SourceColumns(blocks), transactions, rows)
        plain = are_plain(ops, selected.sources, self._flattened)
        if None in rows or not all(plain):
            fits = [is_plain and row is not None for is_plain, row in zip(plain, rows, strict=True)]
            selected = selected.only(fits)
        return selected

    def _find_row(
        self,
        shape: EventShape,
        key: bytes | None,
        op: object,
        source: SourceBlock | None,
        *rows: object,
    ) -> object:
        """The row of an event, the keys of a deleted one; None where it is decoded alone.

        `rows` are the new row and the old one.
        """
        after, before = rows
        if before is None:
            return None if op == "d" else after
        keys = shape.old_keys_of(before) if key is None else self._key_values(key, shape.keys)
        if keys is None:
            return None
        if op == "d":
            return shape.deleted(before, keys)
        if after is None or op != "u" or [*shape.old_keys_of(before)] == shape.keys_of(after):
            return after
        return None if key is None or shows_old_key(op, source, self._layout) else after

    def _key_values(self, key: bytes, names: Collection[str]) -> Sequence[object] | None:
        """The values of the keys in a record's key; None where it has not all of them."""
        if not self._is_avro:
            row = key_row(key) or {}
            return [row[name] for name in names] if row.keys() >= {*names} else None
        try:
            members, _ = decode_avro(key, self._layout.known.schemas, None, "key")
        except NotAvro:
            return None
        values = [members.get(name) if isinstance(members, dict) else None for name in names]
        return values if all(type(value) in (int, str) for value in values) else None

    def _find_odd(
        self, shape: EventShape, rows: _Rows, columns: Mapping[str, Sequence[Any]]
    ) -> set[int]:
        """Which rows are not plain: something is new or left out."""
        odd = set[int]()
        for field in shape.plan.unknown:
            odd.update(at for at, value in enumerate(columns[field]) if value is not None)
        placeholders = self._layout.placeholders
        for large in shape.plan.large:
            values = columns[large.field]
            if placeholders.is_in(values):
                odd.update(at for at, value in enumerate(values) if placeholders.match(value))
        if not self._layout.known.settled:
            names = map(rows.sources.of, ("db", "schema", "table"))
            odd.update(self._traits.of_new_tables(list(zip(*names, strict=True))))
        return odd


def _order_rows(
    records: Slice, shape: EventShape, rows: _Rows, columns: Sequence[Sequence[object]]
) -> Places:
    """Where the rows, whose values by field are `columns`, stand in order."""
    places = find_places(rows.ops, rows.sources, rows.transactions)
    if shape.added is None:
        return places
    given = [records.column(name) for name in ("_timestamp", "_partition", "_offset")]
    in_topic = tuple([column[at] for at in rows.places] for column in given)
    return shape.added.order(columns, rows.sources, places, in_topic)


def _find_nulls(values: pa.Array) -> list[int]:
    nulls: list[int] = pc.indices_nonzero(values.is_null()).to_pylist() if values.null_count else []
    return nulls
