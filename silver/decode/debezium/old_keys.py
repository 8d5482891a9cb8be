"""Keys that a record's own key lacks, and that come from `before` alone.

Under PostgreSQL's REPLICA IDENTITY DEFAULT `before` has true values of the source's own key only:
its connector fills other NOT NULL columns with zeros, empty texts or the column's default, and
leaves the rest null. A delete with such a value removes no row, or the wrong one. An update that
changes such a column leaves the row of the old value in place.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from lakehouse.config.table import Table
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.values import as_json
from silver.decode.change import Record
from silver.decode.columns import Columns
from silver.decode.debezium.events.connectors import WHOLE_OLD_ROWS
from silver.decode.debezium.events.envelope import Envelope, Row, key_row
from silver.decode.values.encodings import block_defaults
from silver.decode.values.json_values import text_of

_MADE_UP = re.compile(
    r"-?0*\.?0*(?:[eE][+-]?\d+)?|f|false|\[\]|\{\}|A+=*|1970-01-01.*|00:00:00.*"
    r"|0{8}(?:-0{4}){3}-0{12}|P[0YMDTHS]*|\{\"scale\":0,\"value\":\"AA==\"\}"
)
"""What the connector writes for a NOT NULL column that it does not know, as a text."""


class _Shape(NamedTuple):
    """Names in lower case: what a topic's record keys have, and what of the table's they lack."""

    has: frozenset[str]
    lacks: frozenset[str]


_NO_SHAPE = _Shape(frozenset(), frozenset())


class OldKeys:
    """What the records of a table show of keys that only `before` has.

    They show the same in any order and cut into any batches.

    Attributes:
        whole: whether some update shows that old rows are whole (REPLICA IDENTITY FULL).
        made_up: keys that a delete takes from an old row, where their value may be made up unless
            old rows are whole.
        moved: keys whose value an update changes, which only whole old rows show.
    """

    def __init__(self, table: Table, known: Columns, open_key: Callable[[Record], None]) -> None:
        taken = {name for name, column in table.columns.items() if column.origin is not None}
        self._keys = {name.lower(): name for name in table.keys if name not in taken}
        self._nullable = table.nullable_keys
        self._open_key = open_key
        self._shapes: dict[str | None, _Shape] = {}
        self._spellings: dict[str, str] = {}
        self.whole = known.whole_old_rows
        lacked = {name.lower() for name in known.lacked_keys} & self._keys.keys()
        self.made_up, self.moved = (set(), lacked) if self.whole else (lacked, set[str]())

    def look(self, envelope: Envelope, record: Record, block: bytes | None) -> bool:
        """Takes in what a record shows; whether it shows anything new."""
        before = envelope.before
        if before is None or record.key is None or not self._keys:
            return False
        shape = self._shapes.get(record.topic) or self._shape_of(record)
        if envelope.op == "d" and not self.whole:
            asked = shape.lacks - self.made_up
            return bool(asked) and self._look_at_delete(envelope, before, asked, block)
        if envelope.op == "u" and envelope.after is not None:
            asked = shape.lacks - self.moved
            return bool(asked) and self._look_at_update(before, envelope.after, shape.has, asked)
        return False

    def merge(self, other: "OldKeys") -> None:
        """Takes in what another look at records of the same table has found."""
        self.whole |= other.whole
        self.made_up |= other.made_up
        self.moved |= other.moved

    @property
    def lacked(self) -> tuple[str, ...]:
        """The keys whose old values are not known, sorted."""
        return tuple(sorted(self._keys[n] for n in (self.moved if self.whole else self.made_up)))

    def _shape_of(self, record: Record) -> _Shape:
        """What the record's key has; the keys of a topic are of one shape."""
        with suppress(NotAvro):
            self._open_key(record)
        row = key_row(record.key)
        has = frozenset(name.lower() for name in row or ())
        shape = _Shape(has, frozenset(self._keys.keys() - has)) if has else _NO_SHAPE
        self._shapes[record.topic] = shape
        return shape

    def _look_at_delete(
        self, envelope: Envelope, before: Row, asked: frozenset[str], block: bytes | None
    ) -> bool:
        source = envelope.source
        if source is not None and source.connector in WHOLE_OLD_ROWS:
            return False
        defaults = {} if block is None else block_defaults(block)
        found = set[str]()
        for name in asked:
            field = self._field_of(name, before)
            if field is not None and self._may_be_made_up(name, before[field], defaults.get(field)):
                found.add(name)
        self.made_up |= found
        return bool(found)

    def _may_be_made_up(self, key: str, value: object, default: object) -> bool:
        """Whether the connector may have put the value in; a null is rejected or a value."""
        if value is None:
            return self._keys[key] in self._nullable
        written = as_json(value)
        return written == default or _MADE_UP.fullmatch(text_of(written)) is not None

    def _look_at_update(
        self, before: Row, after: Row, has: frozenset[str], asked: frozenset[str]
    ) -> bool:
        """An old row beside a new one with the same key is there under REPLICA IDENTITY FULL."""
        moved = {name for name in asked if self._is_moved(name, before, after)}
        if (self.whole and not moved) or any(self._differs(name, before, after) for name in has):
            return False
        self.whole = True
        self.moved |= moved
        return True

    def _is_moved(self, name: str, before: Row, after: Row) -> bool:
        is_there = None not in (self._field_of(name, before), self._field_of(name, after))
        return is_there and self._differs(name, before, after)

    def _differs(self, name: str, before: Row, after: Row) -> bool:
        old, new = self._field_of(name, before), self._field_of(name, after)
        return (old and before[old]) != (new and after[new])

    def _field_of(self, name: str, row: Row) -> str | None:
        """The field of a row that has a name in lower case; rows spell it alike, as a rule."""
        field = self._spellings.get(name, name)
        if field in row:
            return field
        found = next((field for field in row if field.lower() == name), None)
        if found is not None:
            self._spellings[name] = found
        return found
