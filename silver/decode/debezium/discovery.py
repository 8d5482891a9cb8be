"""Finding the columns of a batch: names, types and shapes, from schema blocks or from values.

A declared column has its declared type. A learned one keeps its type, or grows to a wider one of
its kind when a schema block says so. A new one takes its type from the schema blocks in order of
arrival, or from the values where there are none.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.avro.binary import NotAvro
from silver.decode.change import Record
from silver.decode.columns import (
    Column,
    Columns,
    Shape,
    adds_columns,
    is_wanted,
    room,
    settle_names,
)
from silver.decode.debezium.events.envelope import Envelope, Row, key_row
from silver.decode.debezium.events.opening import FLATTENED, FULL, form_of, record_opener
from silver.decode.debezium.evidence import Evidence
from silver.decode.types import wider
from silver.decode.values.encodings import Encoding, block_fields, row_block_fields
from silver.decode.values.inference import SeenValues, inferred_type
from silver.decode.values.json_values import NotJson


@dataclass(frozen=True, slots=True)
class RowBlock:
    """A schema block that describes a row and no envelope."""

    text: bytes


@dataclass(frozen=True, slots=True)
class DocumentField:
    """A field that some document has."""

    name: str


_Mark = bytes | RowBlock | DocumentField | tuple[str, ...]
"""A schema block, or the sorted names of the fields of a row that came without one."""


@dataclass(frozen=True, slots=True)
class _First:
    """The first record that shows something."""

    arrival: str
    position: str


class _Shown:
    """What the events of one form show: marks with their first records, values by column."""

    def __init__(self) -> None:
        self.firsts: dict[_Mark, _First] = {}
        self.values: dict[str, SeenValues] = {}


class DebeziumDiscovery:
    """What the records of a batch show of their table's columns.

    What full envelopes show is kept apart from what flattened events show, as a feed has events of
    one form: the declared one, the one that is known, or that of the first event.
    """

    def __init__(self, table: Table, known: Columns) -> None:
        self.table = table
        self.known = known
        self.keys = {name.lower() for name in table.keys}
        self.typed = {c.name.lower() for c in known.columns if not c.provisional}
        self.forms: dict[str, _First] = {}
        self.shown = {FULL: _Shown(), FLATTENED: _Shown()}
        self._opener = record_opener(table, known)
        self.evidence = Evidence(table, known, self._opener.open_key)
        self._now = self.shown[FULL]
        self._marks: dict[tuple[str, ...], _Mark] = {}

    def look(self, record: Record, position: str) -> None:
        """Takes in what a record shows; one that cannot be read shows nothing."""
        try:
            opened = self._opener.open(record)
        except (NotJson, NotAvro):
            return
        envelope, block, event, document = opened
        first = _First(record.arrival, position)
        if envelope is not None:
            if self.evidence.wants_keys:
                self._open_key(record)
            self.evidence.look(envelope, record, block, event is not None)
        self._now = self.shown[FULL if event is None else FLATTENED]
        if self.known.envelope is None:
            self._note_form(form_of(opened), first)
        if block is not None and event is not None and row_block_fields(block):
            self._note(RowBlock(block), first)
        elif block is not None and event is None and block_fields(block):
            self._note(block, first)
        elif envelope is not None:
            self._look_at_rows(envelope, record, first, document is not None)

    def merge(self, other: "DebeziumDiscovery") -> None:
        """Takes in what another discovery of the same table has seen."""
        for form, first in other.forms.items():
            self._note_form(form, first)
        for form, theirs in other.shown.items():
            self._now = self.shown[form]
            for mark, first in theirs.firsts.items():
                self._note(mark, first)
            for name, seen in theirs.values.items():
                self._now.values.setdefault(name, SeenValues()).merge(seen)
        self.evidence.merge(other.evidence)

    def settle(self, whole: bool = True) -> tuple[Columns, list[Shape]]:
        """The table's columns, and the shapes in order of arrival.

        `whole` says that all records of the batch were looked at: the columns are settled then.
        """
        form = self._form()
        self._now = self.shown[FULL if form in (None, FULL) else FLATTENED]
        firsts = self._now.firsts
        marks = sorted(firsts, key=lambda mark: firsts[mark].arrival)
        known = [self._grown(column, marks) for column in self.known.columns]
        names = self._new_names(marks)
        new = [Column(name, type, provisional=True) for name, type in self._typed(names, marks)]
        found = self.evidence.settled(self.known)
        columns = replace(found, columns=(*known, *new), settled=whole, envelope=form)
        return columns, [self._shape(mark, names) for mark in marks]

    def _open_key(self, record: Record) -> None:
        """Makes a record's key JSON; one that cannot be read shows nothing."""
        with suppress(NotAvro):
            self._opener.open_key(record)

    def _form(self) -> str | None:
        """The form of the feed's events: the known or declared one, else that of the first."""
        form = self._opener.form
        if form is None or (form == FLATTENED and self.known.envelope is None):
            first = min(self.forms, key=lambda one: self.forms[one].arrival, default=form)
            return form if form == FLATTENED and first == FULL else first
        return form

    def _note_form(self, form: str | None, first: _First) -> None:
        held = None if form is None else self.forms.get(form)
        if form is not None and (held is None or first.arrival < held.arrival):
            self.forms[form] = first

    def _note(self, mark: _Mark, first: _First) -> None:
        held = self._now.firsts.get(mark)
        if held is None or first.arrival < held.arrival:
            self._now.firsts[mark] = first

    def _look_at_rows(
        self, envelope: Envelope, record: Record, first: _First, documents: bool
    ) -> None:
        """Takes in the rows of a record without a schema block.

        Keys are also looked for in `before` and the record's key; a table without keys shows whole
        rows in `before`.
        """
        after, before = envelope.after, envelope.before
        row = after if after is not None or self.keys else before
        if row and documents:
            for name in row:
                self._note(DocumentField(name), first)
        elif row:
            self._note(self._mark(tuple(row)), first)
        if after:
            self._look_at_values(after, after)
        if before:
            keys = [name for name in before if name.lower() in self.keys]
            self._look_at_values(before, keys if self.keys else before)
        if self.keys - self.typed:
            key = key_row(record.key) or {}
            self._look_at_values(key, [name for name in key if name.lower() in self.keys])

    def _mark(self, names: tuple[str, ...]) -> _Mark:
        mark = self._marks.get(names)
        if mark is None:
            mark = self._marks[names] = tuple(sorted(names))
        return mark

    def _look_at_values(self, row: Row, names: Iterable[str]) -> None:
        values = self._now.values
        for name in names:
            value, lower = row[name], name.lower()
            if value is None or lower in self.typed:
                continue
            seen = values.get(lower)
            if seen is None:
                seen = values[lower] = SeenValues()
            seen.add(value)

    def _new_names(self, marks: Iterable[_Mark]) -> list[str]:
        """New columns by name, called as the field that came first.

        They are so many at most as the table has room for, the first that came.
        """
        own = [column.name for column in self.known.columns]
        if not adds_columns(self.table):
            return []
        taken = {name.lower() for name in own}
        sound = [fields for mark in marks if len(fields := sorted(_fields(mark))) <= room(own)]
        arrived: dict[str, str] = {}
        for name in [name for fields in sound for name in fields]:
            if name.lower() not in taken and is_wanted(self.table, name):
                arrived.setdefault(name.lower(), name)
        return sorted(settle_names(arrived.values(), own).usable)

    def _typed(self, names: Iterable[str], marks: list[_Mark]) -> Iterator[tuple[str, T.DataType]]:
        """The names that something tells a type of, with it."""
        for name in names:
            type = self._type_of(name, None, marks)
            if type is not None:
                yield name, type

    def _grown(self, column: Column, marks: list[_Mark]) -> Column:
        if column.declared:
            return column
        start = None if column.provisional else column.type
        return replace(column, type=self._type_of(column.name, start, marks) or column.type)

    def _type_of(
        self, name: str, start: T.DataType | None, marks: Iterable[_Mark]
    ) -> T.DataType | None:
        """The type that the schema blocks make of a column's, else that of its values."""
        grows = self.table.schema_changes.widen == "apply" or start is None
        type = start
        for told in _told(name, marks):
            both = told if type is None else wider(type, told)
            if both is not None and (grows or type is None):
                type = both
        if type is None and name.lower() in self._now.values:
            type = inferred_type(self._now.values[name.lower()], zeros_are_whole=False)
        return type

    def _shape(self, mark: _Mark, new: Iterable[str]) -> Shape:
        """The shape with the columns' names for its fields, without what becomes no column.

        A field that the table ignores keeps its name.
        """
        names = {name.lower(): name for name in [*(c.name for c in self.known.columns), *new]}
        adds, first = adds_columns(self.table), self._now.firsts[mark]
        fields = {
            names.get(field.lower(), field): encoding and encoding.type.simpleString()
            for field, encoding in _fields(mark).items()
            if field.lower() in names or not adds
        }
        complete = not isinstance(mark, DocumentField)
        return Shape(fields, complete, first.position, first.arrival)


def _fields(mark: _Mark) -> Mapping[str, Encoding | None]:
    if isinstance(mark, DocumentField):
        return {mark.name: None}
    if isinstance(mark, RowBlock):
        return row_block_fields(mark.text)
    return block_fields(mark) if isinstance(mark, bytes) else dict.fromkeys(mark)


def _told(name: str, marks: Iterable[_Mark]) -> Iterator[T.DataType]:
    """The types that schema blocks give a column, in order of arrival."""
    for mark in marks:
        for field, encoding in _fields(mark).items():
            if encoding is not None and field.lower() == name.lower():
                yield encoding.type
