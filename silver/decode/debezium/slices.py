"""Debezium's JSON by slices: records of few shapes become columns, without a call for each value.

Read so are changes with a position at the source, whose rows have the fields of the first such
record and values that fit. All others, dead letters among them, are left to `Decoder.decode`.
"""

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from silver.contract import DELETE, UPSERT
from silver.decode.avro.ahead import alike_records, read_envelopes
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.schemas import writer_of
from silver.decode.debezium.events.connectors import INVENTING, NEEDS_THOUGHT
from silver.decode.debezium.events.envelope import OLD_KEY_HEADER, Source, Transaction
from silver.decode.debezium.events.flattened import PREFIX, AddedMembers
from silver.decode.debezium.events.log_follower import Sightings
from silver.decode.debezium.events.opening import FLATTENED, REWRITTEN, AvroOpener
from silver.decode.debezium.events.order import Events, Places, find_places
from silver.decode.debezium.slice_shapes import (
    EventShape,
    EventShapes,
    SliceTools,
    deleted_row,
)
from silver.decode.shapes import parse_alike
from silver.decode.slices import ReadPart, Slice, joined, read_shapes
from silver.decode.types import arrow_type, carrier
from silver.decode.values.bulk import convert_column, kinds_of

_OPS = frozenset(("c", "u", "r", "d"))
_TRIED, _FEW = 4, 64
_PARTS = ("op", "source", "transaction", "after", "before")
_TEXTS = (str, type(None))
_UTC = pa.timestamp("us", tz="UTC")


class _Rows(NamedTuple):
    """The rows of some records, one entry per record; a deleted row has its keys alone."""

    places: Sequence[int]
    ops: Sequence[str]
    sources: Sequence[Source | None]
    transactions: Sequence[Transaction | None]
    rows: Sequence[Any]

    def only(self, fits: Sequence[object]) -> "_Rows":
        return self if all(fits) else _Rows._make(list(compress(one, fits)) for one in self)


class SliceReader:
    """Reads slices of one table as its decoder would read their records."""

    def __init__(self, tools: SliceTools) -> None:
        self._tools = tools
        self._columns = tools.layout.columns.columns
        self._types = [arrow_type(carrier(column.type)) for column in self._columns]
        self._flattened = tools.opener.form in (FLATTENED, REWRITTEN)
        self._shapes = EventShapes(tools)

    def read(self, records: Slice) -> ReadPart | None:
        """Reads the records that have few shapes and need no thought."""
        is_avro = isinstance(self._tools.opener, AvroOpener)
        places = records.filled if is_avro else records.places
        if records.has_any("_headers"):
            mark = (PREFIX if self._flattened else OLD_KEY_HEADER).encode()
            headers = records.column("_headers")
            places = [at for at in places if headers[at] is None or mark not in headers[at]]
        if records.has_any("_offset"):
            offsets = records.column("_offset")
            places = [at for at in places if offsets[at] is None or offsets[at] >= 0]
        if is_avro:
            return None if self._flattened else self._read_avro(records, places)
        return read_shapes(places, lambda left: self._read_first(records, left))

    def follow(self, records: Slice, part: ReadPart, start: int, end: int) -> None:
        """Shows the follower of the source's log some of the changes."""
        places = part.places[start:end]
        own = []
        for name in ("_topic", "_partition", "_offset", "_arrival", "_timestamp"):
            values = records.column(name)
            own.append(values if len(places) == len(values) else [values[at] for at in places])
        self._tools.follower.see_all(Sightings(*own, *[fact[start:end] for fact in part.facts]))

    def _read_first(self, records: Slice, places: list[int]) -> tuple[ReadPart | None, list[int]]:
        """Reads the records with the shape of the first one that has any."""
        for nth, at in enumerate(places[:_TRIED]):
            shape = self._shapes.of(records.record(at))
            if shape is not None:
                part = self._part(shape, *self._rows(records, shape, places[nth:]))
                taken = set(part.places)
                return part, [at for at in places[nth:] if at not in taken]
        return None, places

    def _read_avro(self, records: Slice, places: list[int]) -> ReadPart | None:
        """Reads the envelopes of each schema together."""
        texts, headers = records.column("_raw"), records.column("_headers")
        given = [texts[at] for at in places], [headers[at] for at in places]
        parts = []
        for (id, start), nths in alike_records(*given).items():
            part = self._read_schema(records, id, start, [places[nth] for nth in nths])
            parts += [part] if part is not None else []
        return joined(parts) if parts else None

    def _read_schema(
        self, records: Slice, id: str, start: int, places: list[int]
    ) -> ReadPart | None:
        """Reads the envelopes that one schema wrote."""
        schemas, texts = self._tools.layout.columns.schemas, records.column("_raw")
        if id not in schemas:
            return None
        try:
            writer = writer_of(schemas[id])
        except NotAvro:
            return None
        read = read_envelopes(writer, start, [texts[at] for at in places])
        shape = None if read is None else self._shapes.of_avro(writer, schemas)
        if shape is None or read is None:
            return None
        members, broken = read
        parts = [members.get(name, [None] * len(places)) for name in _PARTS]
        if any(broken):
            sound = [not one for one in broken]
            parts = [list(compress(part, sound)) for part in parts]
            places = list(compress(places, sound))
        found = self._of_envelopes(shape, places, parts, records.column("_key"))
        return self._part(shape, *found)

    def _rows(self, records: Slice, shape: EventShape, places: list[int]) -> tuple[_Rows, Places]:
        """The rows of the records that have the shape and an event that says a change."""
        texts, prefix = records.column("_raw"), shape.prefix
        given: Sequence[bytes | None] = texts
        if prefix:
            cut: list[bytes | None] = [None] * len(texts)
            for at in places:
                text = texts[at]
                if text.startswith(prefix) and text[-1:] == b"}":
                    cut[at] = text[len(prefix) : -1]
            given = cut
        parsed = parse_alike(shape.parse, given, places)
        if shape.whole:
            parsed.values = [whole.value for whole in parsed.values]
            parsed = parsed.only([value is not None for value in parsed.values])
        keys = records.column("_key") if records.has_any("_key") else [None] * len(texts)
        if shape.added is None:
            parts = [list(map(attrgetter(name), parsed.values)) for name in _PARTS]
            return self._of_envelopes(shape, parsed.places, parts, keys)
        return self._of_flattened(records, shape, parsed.places, parsed.values, keys)

    def _of_envelopes(
        self,
        shape: EventShape,
        places: Sequence[int],
        members: Sequence[Sequence[Any]],
        keys: Sequence[bytes | None],
    ) -> tuple[_Rows, Places]:
        ops, sources, transactions, rows, befores = members
        if None in rows or any(befores):
            parts = zip(places, ops, sources, rows, befores, strict=True)
            rows = [self._row(shape, keys[at], *one) for at, *one in parts]
        found = _Rows(places, ops, sources, transactions, rows)
        if None in rows or not _are_plain(ops, sources):
            given = zip(ops, sources, rows, strict=True)
            found = found.only([_is_plain(op, s) and row is not None for op, s, row in given])
        return found, find_places(Events(found.ops, found.sources, found.transactions))

    def _of_flattened(
        self,
        records: Slice,
        shape: EventShape,
        places: Sequence[int],
        rows: Sequence[Any],
        keys: Sequence[bytes | None],
    ) -> tuple[_Rows, Places]:
        added = shape.added or AddedMembers(())
        columns = shape.row.columns(rows)
        ops, kept = added.operations(columns, len(rows)), rows
        if "d" in ops:
            parts = zip(places, ops, rows, strict=True)
            kept = [
                r if op != "d" else self._row(shape, keys[at], op, None, None, r)
                for at, op, r in parts
            ]
        fits = [
            type(op) is str and op in _OPS and row is not None
            for op, row in zip(ops, kept, strict=True)
        ]
        for column in columns:
            if dict in kinds_of(column):  # maybe cells, as Cassandra's connector writes them
                fits = [fit and type(v) is not dict for fit, v in zip(fits, column, strict=True)]
        count = len(rows)
        sources, transactions = added.sources(columns, count), added.transactions(columns, count)
        found = _Rows(places, ops, sources, transactions, kept)
        fits = [f and (s is None or _is_named(s)) for f, s in zip(fits, sources, strict=True)]
        columns = columns if all(fits) else [list(compress(one, fits)) for one in columns]
        found = found.only(fits)
        events = Events(found.ops, found.sources, found.transactions)
        offsets, stamps = records.column("_offset"), records.column("_timestamp")
        own = [offsets[at] for at in found.places], [stamps[at] for at in found.places]
        return found, added.places(columns, events, *own)

    def _row(
        self, shape: EventShape, key: bytes | None, op: object, source: Source | None, *rows: object
    ) -> object:
        """The row of an event, the keys of a deleted one; None where it needs thought.

        `rows` are the new row and the old one.
        """
        after, before = rows
        values = None
        if before is not None and key is not None:
            values = shape.parse_key(key)
            if values is None:
                return None
        if op == "d":
            if before is None:
                return None
            return deleted_row(shape, _keys_of(shape, before) if values is None else values)
        if before is None or op != "u" or after is None or source is None:
            return after
        if source.connector in INVENTING and not self._tools.layout.columns.whole_old_rows:
            return after
        return after if _keys_of(shape, before) == _keys_of(shape, after) else None

    def _part(self, shape: EventShape, rows: _Rows, places: Places) -> ReadPart:
        """The changes of the rows whose values fit."""
        given = shape.row.columns(rows.rows)
        fits = self._fitting(shape, rows, places, given)
        if not all(fits):
            rows = rows.only(fits)
            places = Places._make(list(compress(one, fits)) for one in places)
            given = [list(compress(column, fits)) for column in given]
        columns: dict[str, pa.Array] = {}
        fits = [True] * len(rows.places)
        for one in shape.readings:
            values, misfits = convert_column(
                given[one.field], one.convert, one.bulk, self._types[one.at]
            )
            columns[self._columns[one.at].name] = values
            for at in misfits:
                fits[at] = False
        operations = [DELETE if op == "d" else UPSERT for op in rows.ops]
        columns |= {
            "_operation": pa.array(operations, pa.string()),
            "_sequence": pa.array(places.sequence, pa.string()),
            "_source_time": pa.array(places.source_time, pa.int64()).cast(_UTC),
            "_transaction": pa.array(places.transaction, pa.string()),
            "_transaction_order": pa.array(places.transaction_order, pa.int64()),
            "_snapshot": pa.array(places.snapshot, pa.string()),
            "_snapshot_last": pa.array(places.snapshot_last, pa.bool_()),
        }
        reads = [op == "r" for op in rows.ops]
        told = (reads, rows.sources, places.sequence, places.source_time, places.snapshot)
        return ReadPart([*rows.places], columns, told).only(fits)

    def _fitting(
        self,
        shape: EventShape,
        rows: _Rows,
        places: Places,
        columns: Sequence[Sequence[object]],
    ) -> list[bool]:
        """Which rows need no thought: keys, values that must be there, nothing new or left out."""
        odd = {at for at, sequence in enumerate(places.sequence) if sequence is None}
        needed = {one.field for one in shape.readings if one.at in self._tools.required}
        for field in {*shape.keys, *needed}:
            if None in columns[field]:
                nulls = zip(columns[field], rows.ops, strict=True)
                among_keys = field in shape.keys
                odd |= {
                    at
                    for at, (v, op) in enumerate(nulls)
                    if v is None and (among_keys or op != "d")
                }
        for field in shape.unknown:
            odd |= {at for at, value in enumerate(columns[field]) if value is not None}
        placeholders = self._tools.placeholders
        for one in shape.readings:
            if one.large and placeholders.is_in(columns[one.field]):
                matches = map(placeholders.match, columns[one.field])
                odd |= {at for at, matched in enumerate(matches) if matched}
        if not self._tools.layout.columns.settled:
            odd |= set(self._tools.news.of_new_tables(rows.sources))
        return [at not in odd for at in range(len(rows.places))]


def _keys_of(shape: EventShape, row: object) -> tuple[object, ...]:
    """The values of the keys in a row."""
    return tuple(shape.row.values(row)[at] for at in shape.keys)


def _are_plain(ops: Sequence[object], sources: Sequence[Source | None]) -> bool:
    """Whether `_is_plain` says of all events that they are, which a few kinds of them tell."""
    try:
        kinds = {
            None if s is None else (s.connector, s.value_capture_type, type(s.name), type(s.db))
            for s in sources
        }
        if not {*ops} <= _OPS or len(kinds) > _FEW:
            return False
    except TypeError:  # a member is a list or an object
        return False
    seen = [one for one in kinds if one is not None]
    return len(seen) == len(kinds) and all(
        type(connector) is str
        and connector not in NEEDS_THOUGHT
        and capture is None
        and {name, db} <= {*_TEXTS}
        for connector, capture, name, db in seen
    )


def _is_plain(op: object, source: Source | None) -> bool:
    """Whether an event is of a row, and of a connector that needs no thought."""
    if source is None or type(op) is not str or op not in _OPS:
        return False
    connector = source.connector
    if type(connector) is not str or connector in NEEDS_THOUGHT:
        return False
    return source.value_capture_type is None and _is_named(source)


def _is_named(source: Source) -> bool:
    """Whether the names that tell one log from another are texts, if they are there."""
    return type(source.name) in _TEXTS and type(source.db) in _TEXTS
