"""Finds the columns of a batch: names, types and shapes, from schema blocks or from values.

A declared column has its declared type. A learned one keeps its type, or grows to a wider one of
its kind when a schema block says so. A new one takes its type from the schema blocks in order of
arrival, or from the values where there are none.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal, NamedTuple, TypeVar

from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.avro.binary import NotAvro
from silver.decode.change import Record
from silver.decode.columns import (
    Columns,
    DecodedColumn,
    Shape,
    adds_columns,
    column_limit,
    is_wanted,
    settle_names,
)
from silver.decode.debezium.events.connectors import to_microseconds
from silver.decode.debezium.events.envelope import Envelope, Row, key_row
from silver.decode.debezium.events.opening import FLATTENED, FULL, form_of, record_opener
from silver.decode.debezium.traits import Traits
from silver.decode.renames import by_column
from silver.decode.types import wider_type
from silver.decode.values.encodings import Encoding, block_fields, row_block_fields
from silver.decode.values.inference import SeenValues, infer_type
from silver.decode.values.json_values import NotJson

_Key = TypeVar("_Key")


class _Mark(NamedTuple):
    """What names columns in records.

    It is the schema block of an envelope or of a flattened row, one field of a document, or the
    sorted field names of a row without a block.
    """

    kind: Literal["envelope", "flattened row", "document", "row"]
    content: bytes | tuple[str, ...]

    @property
    def fields(self) -> Mapping[str, Encoding | None]:
        """The fields with their encodings, which are None without a block."""
        if not isinstance(self.content, bytes):
            return dict.fromkeys(self.content)
        fields_of = block_fields if self.kind == "envelope" else row_block_fields
        return fields_of(self.content)


class _First(NamedTuple):
    """When the first record of something came, and where it lies."""

    arrival: str
    position: str


@dataclass
class _Shown:
    """What the events of one form show: marks with their first records, values by column.

    `times` are the least and the greatest commit time of a mark's records.
    """

    firsts: dict[_Mark, _First] = field(default_factory=dict)
    times: dict[_Mark, tuple[int, int]] = field(default_factory=dict)
    values: defaultdict[str, SeenValues] = field(default_factory=lambda: defaultdict(SeenValues))

    @property
    def marks(self) -> list[_Mark]:
        """The marks in order of arrival."""
        return sorted(self.firsts, key=lambda mark: self.firsts[mark].arrival)

    def add_times(self, mark: _Mark, *times: int) -> None:
        """Takes in commit times of records that show the mark."""
        every = [*self.times.get(mark, ()), *times]
        if every:
            self.times[mark] = min(every), max(every)

    def types_of(self, name: str) -> list[T.DataType]:
        """The types that schema blocks give a field, in lower case, in order of arrival."""
        fields = [item for mark in self.marks for item in mark.fields.items()]
        return [one.type for field, one in fields if one is not None and field.lower() == name]


class DebeziumDiscovery:
    """What the records of a batch show of their table's columns.

    What full envelopes show is kept apart from what flattened events show. A feed has events of one
    form, and `settle`, which finds it, uses what events of that form showed.
    """

    def __init__(self, table: Table, columns: Columns) -> None:
        self.table = table
        self.known = columns
        self.keys = {name.lower() for name in table.keys}
        self.typed = {c.name.lower() for c in columns.columns if not c.provisional}
        self.forms: dict[str, _First] = {}
        self.shown = {FULL: _Shown(), FLATTENED: _Shown()}
        self._opener = record_opener(table, columns)
        self.traits = Traits(table, columns, self._opener.open_key)
        self._marks: dict[tuple[str, ...], _Mark] = {}

    def look(self, record: Record, position: str) -> None:
        """Takes in what a record shows; one that cannot be read shows nothing."""
        try:
            opened = self._opener.open(record)
        except (NotJson, NotAvro):
            return
        envelope = opened.envelope
        first = _First(record.arrival, position)
        self.traits.look(opened, record)
        shown = self.shown[FULL if opened.rewrites is None else FLATTENED]
        form = form_of(opened) if self.known.envelope is None else None
        if form is not None:
            _keep_first(self.forms, form, first)
        kind: Literal["envelope", "flattened row"]
        kind = "envelope" if opened.rewrites is None else "flattened row"
        block = None if opened.block is None else _Mark(kind, opened.block)
        marks = [block] if block is not None and block.fields else []
        if not marks and envelope is not None:
            marks = self._marks_of(envelope, opened.document is not None)
            self._look_at_row(envelope, record, shown)
        source = None if envelope is None else envelope.source
        time = source and to_microseconds(source.ts_us, source.ts_ns, source.ts_ms)
        for mark in marks:
            _keep_first(shown.firsts, mark, first)
            shown.add_times(mark, *([time] if time else []))

    def merge(self, other: "DebeziumDiscovery") -> None:
        """Takes in what another discovery of the same table has seen."""
        for form, first in other.forms.items():
            _keep_first(self.forms, form, first)
        for form, theirs in other.shown.items():
            ours = self.shown[form]
            for mark, first in theirs.firsts.items():
                _keep_first(ours.firsts, mark, first)
                ours.add_times(mark, *theirs.times.get(mark, ()))
            for name, seen in theirs.values.items():
                ours.values[name].merge(seen)
        self.traits.merge(other.traits)

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns and the shapes of its rows; see `silver.decode.columns.Discovery`."""
        form = self._find_form()
        shown = self.shown[FULL if form in (None, FULL) else FLATTENED]
        marks = shown.marks
        present = [c if c.declared else self._grow_column(c, shown) for c in self.known.columns]
        names = self._new_names(marks)
        types = ((name, self._type_of(name, None, shown)) for name in names)
        new = [DecodedColumn(n, type, provisional=True) for n, type in types if type is not None]
        settled = self.traits.settle(self.known)
        columns = replace(settled, columns=(*present, *new), settled=whole, envelope=form)
        shapes = [self._make_shape(mark, shown, names) for mark in marks]
        documents = [shape for shape in shapes if not shape.complete]
        if documents and self.known.announced is None:  # the first fields of a source are not new
            fields = {name: type for shape in documents for name, type in shape.fields.items()}
            shapes.insert(0, replace(documents[0], fields=fields))
        return columns, shapes

    def _find_form(self) -> str | None:
        """The known or declared form, else the first event's, which may refine FLATTENED."""
        form = self._opener.form
        if form is None or (form == FLATTENED and self.known.envelope is None):
            first = min(self.forms, key=lambda one: self.forms[one].arrival, default=form)
            return form if form == FLATTENED and first == FULL else first
        return form

    def _marks_of(self, envelope: Envelope, is_document: bool) -> list[_Mark]:
        """The marks of `after` in a record without a block; in keyless tables else of `before`."""
        after = envelope.after
        row = (after if after is not None or self.keys else envelope.before) or {}
        if is_document:
            return [_Mark("document", (name,)) for name in row]
        names = tuple(row)
        if names and names not in self._marks:
            self._marks[names] = _Mark("row", tuple(sorted(names)))
        return [self._marks[names]] if names else []

    def _look_at_row(self, envelope: Envelope, record: Record, shown: _Shown) -> None:
        """Takes in values; those of keys are also looked for in `before` and the record's key."""
        self._look_at_values(envelope.after or {}, shown, ())
        self._look_at_values(envelope.before or {}, shown, self.keys)
        if self.keys - self.typed:
            self._look_at_values(key_row(record.key) or {}, shown, self.keys)

    def _look_at_values(self, row: Row, shown: _Shown, names: Collection[str]) -> None:
        """Takes in the values of the fields `names` (lower case); of all fields without any."""
        for name, value in row.items():
            lower = name.lower()
            if value is not None and lower not in self.typed and (lower in names or not names):
                shown.values[lower].add(value)

    def _new_names(self, marks: Iterable[_Mark]) -> list[str]:
        """New columns, sorted, spelled as first seen; the earliest, where room is short.

        Marks with more fields than a table may have are skipped.
        """
        names = [column.name for column in self.known.columns]
        if not adds_columns(self.table):
            return []
        taken = {name.lower() for name in names}
        sound = [sorted(mark.fields) for mark in marks if len(mark.fields) <= column_limit(names)]
        arrived: dict[str, str] = {}
        for name in chain(*sound):
            if name.lower() not in taken and is_wanted(self.table, name):
                arrived.setdefault(name.lower(), name)
        usable, _ = settle_names(arrived.values(), names)
        return sorted(usable)

    def _grow_column(self, column: DecodedColumn, shown: _Shown) -> DecodedColumn:
        start = None if column.provisional else column.type
        return replace(column, type=self._type_of(column.name, start, shown) or column.type)

    def _type_of(self, name: str, start: T.DataType | None, shown: _Shown) -> T.DataType | None:
        """A column's type as schema blocks widen it, else the one inferred from its values."""
        grows = self.table.schema_changes.widen == "apply" or start is None
        type, lower = start, name.lower()
        for one in shown.types_of(lower):
            both = one if type is None else wider_type(type, one)
            if both is not None and (grows or type is None):
                type = both
        if type is None and lower in shown.values:
            type = infer_type(shown.values[lower], zeros_are_whole=False)
        return type

    def _make_shape(self, mark: _Mark, shown: _Shown, new: Iterable[str]) -> Shape:
        """The shape of a mark: its fields that are columns, by the columns' names.

        Where the table ignores new columns, the shape has them too.
        """
        names = {name.lower(): name for name in [*(c.name for c in self.known.columns), *new]}
        adds = adds_columns(self.table)
        fields = {
            names.get(field.lower(), field): encoding and encoding.type.simpleString()
            for field, encoding in by_column(self.table, mark.fields).items()
            if field.lower() in names or not adds
        }
        first, times = shown.firsts[mark], shown.times.get(mark)
        return Shape(fields, mark.kind != "document", first.position, times)


def _keep_first(firsts: dict[_Key, _First], shown: _Key, first: _First) -> None:
    held = firsts.get(shown)
    if held is None or first.arrival < held.arrival:
        firsts[shown] = first
