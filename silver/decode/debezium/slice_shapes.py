"""The shapes of Debezium's records: how the records of each are parsed and read."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from silver.decode.avro.binary import NotAvro
from silver.decode.avro.schemas import Writer, decode_avro
from silver.decode.change import Record
from silver.decode.debezium.events.envelope import Source, Transaction
from silver.decode.debezium.events.flattened import PREFIX, AddedMembers
from silver.decode.debezium.events.log_follower import LogFollower
from silver.decode.debezium.events.opening import FLATTENED, REWRITTEN, Opener
from silver.decode.debezium.events.placeholders import Placeholders
from silver.decode.debezium.evidence import NewEvidence
from silver.decode.debezium.row_plans import RowReader, TableLayout
from silver.decode.shapes import BROKEN, RowShape, TupleShape, can_be_fields, parser_of_shape
from silver.decode.types import arrow_type, carrier
from silver.decode.values.bulk import BulkConverter, bulk_converter
from silver.decode.values.encodings import block_fields
from silver.decode.values.json_values import NotJson
from silver.decode.values.numbers import Converter
from silver.decode.wrapped import open_row


class SliceTools(NamedTuple):
    """What a decoder shares with who reads its slices."""

    layout: TableLayout
    opener: Opener
    news: NewEvidence
    placeholders: Placeholders
    follower: LogFollower
    required: Sequence[int]
    reader_of: Callable[[tuple[bytes | None, bool, bool, bool]], RowReader]


class FieldReading(NamedTuple):
    """How a column is read.

    Attributes:
        field: the place of its field in the row.
        at: the column's place.
        convert: the converter of one value.
        bulk: that of many; None without one.
        large: whether the source can leave its values out.
    """

    field: int
    at: int
    convert: Converter
    bulk: BulkConverter | None
    large: bool


class EventShape(NamedTuple):
    """How records of one shape are parsed and read.

    Attributes:
        row: the struct of their rows.
        parse: from the text of a record to its event, or to its row if it is flattened.
        prefix: what the texts of all such records begin with, which is not parsed.
        whole: whether they are whole records.
        added: the members that a transform added to the row; None for full envelopes.
        readings: what becomes of the fields.
        unknown: the places of fields that could be columns.
        keys: the places of the keys' fields in the row.
        parse_key: the keys' values in a record's key; None where it has not all of them.
    """

    row: RowShape | TupleShape
    parse: Callable[[bytes], Any]
    prefix: bytes
    whole: bool
    added: AddedMembers | None
    readings: Sequence[FieldReading]
    unknown: Sequence[int]
    keys: Sequence[int]
    parse_key: Callable[[bytes], tuple[object, ...] | None]


class EventShapes:
    """Makes the shapes of one table's records, each once."""

    def __init__(self, tools: SliceTools) -> None:
        self._tools = tools
        self._columns = tools.layout.columns.columns
        self._types = [arrow_type(carrier(column.type)) for column in self._columns]
        self._flattened = tools.opener.form in (FLATTENED, REWRITTEN)
        self._shapes: dict[tuple[Any, ...], EventShape | None] = {}

    def of(self, record: Record) -> EventShape | None:
        """The shape of a record; None where it has to be decoded alone."""
        try:
            if self._flattened:
                row, block = open_row(record)
            else:
                opened = self._tools.opener.open(record)
                envelope, block = opened.envelope, opened.block
                if envelope is None or opened.event is not None or opened.document is not None:
                    return None
                row = envelope.before if envelope.after is None else envelope.after
        except (NotJson, NotAvro):
            return None
        prefix = b"" if block is None else b'{"schema":' + block + b',"payload":'
        is_cut = block is None or not record.whole
        if not row or not is_cut or not (record.raw or b"").startswith(prefix):
            return None
        if not can_be_fields(row):
            return None
        key = tuple(row), prefix, record.whole
        if key not in self._shapes:
            self._shapes[key] = self._made(key[0], block, prefix, record.whole)
        return self._shapes[key]

    def _made(
        self, names: tuple[str, ...], block: bytes | None, prefix: bytes, whole: bool
    ) -> EventShape | None:
        added = AddedMembers(names) if self._flattened else None
        if added is not None and not added.are_plain:
            return None
        own = names if added is None else tuple(n for n in names if not n.startswith(PREFIX))
        reader = self._tools.reader_of((block, True, added is not None, False))
        found = self._readings(names, own, reader)
        if found is None:
            return None
        readings, unknown, keys = found
        is_double = {c.at for c in readings if c.bulk and self._types[c.at] == pa.float64()}
        row = RowShape(names, [names[one.field] for one in readings if one.at in is_double])
        type = row.struct if added is not None else _event(row.struct, not prefix)
        if whole:
            type = msgspec.defstruct("Whole", [("value", type | None, None)], gc=False)
        parse_key = partial(_key_values, _key_parsers([names[at] for at in keys]))
        how = parser_of_shape(type), prefix, whole, added
        return EventShape(row, *how, readings, unknown, keys, parse_key)

    def of_avro(self, writer: Writer, schemas: Mapping[str, str]) -> EventShape | None:
        """The shape of the envelopes that a schema wrote; None where they need thought."""
        key = writer.text, b"", False
        if key not in self._shapes:
            names = tuple(block_fields(writer.text))
            found = self._readings(
                names, names, self._tools.reader_of((writer.text, True, False, False))
            )
            self._shapes[key] = None
            if found is not None:
                parse_key = partial(_avro_key_values, schemas, [names[at] for at in found[2]])
                how = _no_event, b"", False, None
                self._shapes[key] = EventShape(TupleShape(names), *how, *found, parse_key)
        return self._shapes[key]

    def _readings(
        self, names: Sequence[str], own: tuple[str, ...], reader: RowReader
    ) -> tuple[list[FieldReading], list[int], list[int]] | None:
        """How the fields are read, and the places of those without a column, and of the keys.

        `own` are the names of the row alone. None where all such rows need thought.
        """
        plan = reader.plan(dict.fromkeys(own))
        taken = [at for _, at, _ in plan.readings]
        keys = {at: field for field, at, _ in plan.keys}
        needs_thought = reader.unlike or plan.unlike or plan.unfit or len({*taken}) < len(taken)
        is_typed = len(own) == 1 and own[0].endswith(".Value")
        has_all = {*self._tools.required, *self._tools.layout.keys} <= {*taken}
        if needs_thought or is_typed or not has_all:
            return None
        large = {field for field, _ in plan.large}
        readings = [
            FieldReading(names.index(f), at, convert, self._bulk(reader, at, f), f in large)
            for f, at, convert in plan.readings
        ]
        unknown = [names.index(name) for name in plan.unknown]
        return readings, unknown, [names.index(keys[at]) for at in self._tools.layout.keys]

    def _bulk(self, reader: RowReader, at: int, field: str) -> BulkConverter | None:
        encoding = reader.encoding(at, field)
        if encoding is None:
            return None
        return bulk_converter(encoding, self._columns[at].type, self._types[at])


def _event(row: type[Any], is_bare: bool) -> type[Any]:
    """The struct of an envelope; a bare one has no members of the wrapper around it."""
    fields: list[tuple[str, Any, Any]] = [
        ("op", object, None),
        ("after", row | None, None),
        ("before", row | None, None),
        ("source", Source | None, None),
        ("transaction", Transaction | None, None),
    ]
    wrapper: list[tuple[str, Any, Any]] = [("schema", None, None), ("payload", None, None)]
    return msgspec.defstruct("Event", [*fields, *(wrapper if is_bare else [])], gc=False)


def _key_parsers(names: Sequence[str]) -> list[Callable[[bytes], Any]]:
    """Parsers of a record's key as it is, and in the wrapper with its schema."""
    fields = [f"f{at}" for at in range(len(names))]
    rename = dict(zip(fields, names, strict=True))
    key = msgspec.defstruct("Key", [(name, object) for name in fields], rename=rename, gc=False)
    members = [("schema", msgspec.Raw), ("payload", key)]
    wrapper = msgspec.defstruct("KeyWrapper", members, forbid_unknown_fields=True, gc=False)
    unwrap = parser_of_shape(wrapper)
    return [parser_of_shape(key), lambda text: unwrap(text).payload]


def _key_values(parsers: Sequence[Callable[[bytes], Any]], key: bytes) -> tuple[object, ...] | None:
    """The values of the keys in a record's key; None where it has not all of them."""
    for parse in parsers:
        try:
            return msgspec.structs.astuple(parse(key))
        except BROKEN:
            continue
    return None


def deleted_row(shape: EventShape, values: tuple[object, ...]) -> object:
    """A row with the keys alone."""
    row: list[object] = [None] * len(shape.row.names)
    for at, value in zip(shape.keys, values, strict=True):
        row[at] = value
    return shape.row.make(row)


def _avro_key_values(
    schemas: Mapping[str, str], names: Sequence[str], key: bytes
) -> tuple[object, ...] | None:
    try:
        found, _ = decode_avro(key, schemas, None, "key")
    except NotAvro:
        return None
    values = [found.get(name) if isinstance(found, dict) else None for name in names]
    return tuple(values) if all(type(value) in (int, str) for value in values) else None


def _no_event(text: bytes) -> object:
    """Stands for a parser where records are read together."""
    raise TypeError(text)
