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

from lakehouse.table import Table
from silver.decode.avro.binary import NotAvro
from silver.decode.change import Record
from silver.decode.columns import Columns
from silver.decode.debezium.events.envelope import Envelope, Row, key_row
from silver.decode.debezium.values.schema_blocks import block_defaults
from silver.decode.values.json_values import text_of

_WHOLE_LOGS = frozenset(("mysql", "mariadb", "sqlserver", "oracle", "db2", "informix"))
"""Connectors whose old rows are as the source had them, or have nulls."""
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

    Attributes:
        whole: whether some update shows that old rows are whole (REPLICA IDENTITY FULL).
        made_up: keys that a delete takes from an old row, where their value may be made up.
        untrue: keys whose old value is not known, whatever else is shown: known ones, and those
            whose value an update changes.
    """

    def __init__(self, table: Table, known: Columns, open_key: Callable[[Record], None]) -> None:
        taken = {name for name, column in table.columns.items() if column.origin is not None}
        self._keys = {name.lower(): name for name in table.keys if name not in taken}
        self._nullable = table.nullable_keys
        self._open_key = open_key
        self._shapes: dict[str | None, _Shape] = {}
        self.whole = known.whole_old_rows
        self.made_up = set[str]()
        self.untrue = set(known.lacked_keys)

    def look(self, envelope: Envelope, record: Record, block: bytes | None) -> bool:
        """Takes in what a record shows; whether it shows anything new."""
        before = envelope.before
        if before is None or record.key is None or not self._keys:
            return False
        shape = self._shapes.get(record.topic) or self._shape_of(record)
        if not shape.lacks:
            return False
        known = self.whole, self.lacked
        if envelope.op == "d":
            self._look_at_delete(envelope, before, shape, block)
        elif envelope.op == "u" and envelope.after is not None:
            self._look_at_update(before, envelope.after, shape)
        return known != (self.whole, self.lacked)

    def merge(self, other: "OldKeys") -> None:
        """Takes in what another look at records of the same table has found."""
        self.whole |= other.whole
        self.made_up |= other.made_up
        self.untrue |= other.untrue

    @property
    def lacked(self) -> tuple[str, ...]:
        """The keys whose old values are not known, sorted."""
        return tuple(sorted(self.untrue | (set() if self.whole else self.made_up)))

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
        self, envelope: Envelope, before: Row, shape: _Shape, block: bytes | None
    ) -> None:
        source = envelope.source
        if source is not None and source.connector in _WHOLE_LOGS:
            return
        defaults = {} if block is None else block_defaults(block)
        for name, value in before.items():
            lower = name.lower()
            if lower in shape.lacks and self._may_be_made_up(lower, value, defaults.get(name)):
                self.made_up.add(self._keys[lower])

    def _may_be_made_up(self, key: str, value: object, default: object) -> bool:
        """Whether the connector may have put the value in; a null is rejected or a value."""
        if value is None:
            return self._keys[key] in self._nullable
        return value == default or _MADE_UP.fullmatch(text_of(value)) is not None

    def _look_at_update(self, before: Row, after: Row, shape: _Shape) -> None:
        """An old row beside a new one with the same key is there under REPLICA IDENTITY FULL."""
        old = {name.lower(): value for name, value in before.items()}
        new = {name.lower(): value for name, value in after.items()}
        if any(old.get(name) != new.get(name) for name in shape.has):
            return
        self.whole = True
        moved = (name for name in shape.lacks & old.keys() & new.keys() if old[name] != new[name])
        self.untrue |= {self._keys[name] for name in moved}
