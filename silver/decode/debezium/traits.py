"""Learns from records how their source writes them, beyond their columns: the source's traits.

Where a record's key lacks a key column of the table, `before` alone has the old value. Under
PostgreSQL's REPLICA IDENTITY DEFAULT `before` has genuine values of the source's own key only: its
connector fills other NOT NULL columns with zeros, empty texts or the column's default, and leaves
the rest null. A delete with such an invented value removes no row, or the wrong one. An update that
changes such a column leaves the row of the old value in place.
"""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from lakehouse.config.table import Table
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.values import as_json
from silver.decode.change import Record
from silver.decode.columns import Columns, declared_types
from silver.decode.debezium.events.connectors import WHOLE_OLD_ROWS
from silver.decode.debezium.events.envelope import OF_SOURCE, Envelope, Row, key_row
from silver.decode.debezium.events.opening import Opened
from silver.decode.debezium.events.order import BY_CHANGE, ORDERS, order_shown
from silver.decode.renames import column_names
from silver.decode.values.encodings import block_defaults, declares_decimals, holds_decimals
from silver.decode.values.inference import MOST_LEFT_OUT, UndeclaredFields
from silver.decode.values.json_values import text_of
from silver.decode.values.numbers import form_of

_CHANGES = ("c", "u", "d", "r", "t")
_MOST_KEYS = 1_000
"""How many records have their key parsed, to find parts that are no keys of the table."""
_INVENTED = re.compile(
    r"-?0*\.?0*(?:[eE][+-]?\d+)?|f|false|\[\]|\{\}|A+=*|1970-01-01.*|00:00:00.*"
    r"|0{8}(?:-0{4}){3}-0{12}|P[0YMDTHS]*|\{\"scale\":0,\"value\":\"AA==\"\}"
)
"""What the connector invents for a NOT NULL column whose value it does not know, as text."""

_SourceTable = tuple[object, ...]
"""Database, schema and table, as far as a source block says them."""
_PARTS, _NO_TABLE = ("db", "schema", "table"), (None, None, None)


class _KeyShape(NamedTuple):
    """The fields of a topic's record keys, and the table's keys that these lack; in lower case."""

    has: frozenset[str]
    lacks: frozenset[str]


class Traits:
    """What the records of a table have shown so far, starting from what `Columns` already knows.

    The result is the same in whatever order and batches the records come. Attributes that `Columns`
    does not have:

    Attributes:
        looks_into_values: whether columns have structs, whose values may have undeclared fields.
        mixes: whether rows of several source tables can become one row of the table. They cannot
            where rows lack a key of the table: an `origin` fills it and tells the tables apart.
        made_up: keys that deletes take from `before`, where the connector may have invented their
            values; in lower case, as `moved`. Not used once `before` is known to be whole.
        moved: keys whose value some update changes, which only whole old rows show.
    """

    def __init__(self, table: Table, columns: Columns, open_key: Callable[[Record], None]) -> None:
        self.decimal_texts = set(filter(None, [columns.decimal_texts]))
        self.orders = set(filter(None, [columns.order]))
        self.key_parts, self.left_out = set(columns.key_parts), set(columns.left_out)
        self.source_table: _SourceTable | None = columns.source_table
        self.mixes = not table.is_shared
        self._origins = {c.origin: n for n, c in table.columns.items() if c.origin is not None}
        self._table = table
        with_origin = self._origins.values()
        self._keys = {name.lower(): name for name in table.keys if name not in with_origin}
        self._nullable = table.nullable_keys
        self.whole_old_rows = columns.whole_old_rows
        lacked = {name.lower() for name in columns.lacked_keys} & self._keys.keys()
        none = set[str]()
        self.made_up, self.moved = (none, lacked) if self.whole_old_rows else (lacked, none)
        knows_several = table.is_shared or any(n.startswith(OF_SOURCE) for n in columns.key_parts)
        self._first_table = None if knows_several else columns.source_table
        self._keys_to_parse = _MOST_KEYS if table.keys else 0
        decimals = {c.name.lower() for c in columns.columns if holds_decimals(c.type)}
        self._decimals = set() if declares_decimals(table.feeds[0]) else decimals
        self._undeclared = UndeclaredFields(declared_types(table))
        self.looks_into_values = self._undeclared.has_structs
        self._open_key = open_key
        self._shapes: dict[str | None, _KeyShape] = {}
        self._spellings: dict[str, str] = {}

    @property
    def lacked_keys(self) -> tuple[str, ...]:
        """`moved` where old rows are whole, else `made_up`; sorted."""
        names = self.moved if self.whole_old_rows else self.made_up
        return tuple(sorted(self._keys[name] for name in names))

    def look(self, opened: Opened, record: Record) -> None:
        """Learns from a record; its key becomes JSON if it can be read."""
        envelope, block, rewrites, _ = opened
        if envelope is None:
            return
        if envelope.op in _CHANGES:
            self._look_at_key(record)
            self._look_at_table(envelope)
            order = order_shown(envelope.source)
            if rewrites is None or order == BY_CHANGE:  # flattened: no other counts
                self.orders.add(order)
        self.left_out |= {name for name in envelope.after or () if name.startswith("_")}
        self.look_again(envelope, record, block)
        if block is None and (envelope.source is not None or rewrites is not None):
            self._look_at_decimals(envelope)

    def look_again(self, envelope: Envelope, record: Record, block: bytes | None) -> bool:
        """Learns what a record may show that earlier ones did not; decoding calls this as well.

        Returns:
            Whether a change shows a source table, old keys or left out fields that are not known.
        """
        shows = envelope.before is not None and self.look_at_old_keys(envelope, record, block)
        if self.looks_into_values and len(self.left_out) < MOST_LEFT_OUT:
            fields = self._undeclared.find(envelope.after or {}) - self.left_out
            self.left_out |= fields
            shows |= bool(fields)
        source = envelope.source
        table = _NO_TABLE if source is None else (source.db, source.schema, source.table)
        return shows or bool(self.of_new_tables([table]))

    def of_new_tables(self, tables: Sequence[_SourceTable]) -> list[int]:
        """The indices of source tables that are another one than the known one."""
        first = self._first_table
        if first is None or tables.count(first) == len(tables):
            return []
        return [at for at, one in enumerate(tables) if one != first and one != _NO_TABLE]

    def merge(self, other: "Traits") -> None:
        """Adds what was learned from other records of the same table."""
        for name in ("decimal_texts", "orders", "key_parts", "left_out", "made_up", "moved"):
            getattr(self, name).update(getattr(other, name))
        self.mixes &= other.mixes
        self.whole_old_rows |= other.whole_old_rows
        self._add_table(other.source_table)

    def settle(self, columns: Columns) -> Columns:
        """The known columns with all traits; the order is the first of `ORDERS` that was shown."""
        parts = [n for n in self.key_parts if self.mixes or not n.startswith(OF_SOURCE)]
        return replace(
            columns,
            decimal_texts=min(self.decimal_texts) if len(self.decimal_texts) == 1 else None,
            order=next((order for order in ORDERS if order in self.orders), None),
            key_parts=tuple(sorted(parts)),
            source_table=self.source_table if self.mixes else None,
            left_out=tuple(sorted(self.left_out)[:MOST_LEFT_OUT]),
            whole_old_rows=self.whole_old_rows,
            lacked_keys=self.lacked_keys,
        )

    def _look_at_key(self, record: Record) -> None:
        """Adds the parts of a record's key that are no keys of the table and fill no column.

        All keys of a topic have the same fields, so the first records are enough.
        """
        if record.key is None or not self._keys_to_parse:
            return
        self._keys_to_parse -= 1
        names = self._names_of_key(record)
        others = [name for name in names if name.lower() not in self._table.key_names]
        self.key_parts |= {name for name in others if name not in self._origins}

    def _add_table(self, table: _SourceTable | None) -> None:
        """Adds the parts (database, schema, table) in which a table differs from the first one."""
        if self.source_table is None:
            self.source_table = table
        elif table is not None and table != self.source_table:
            both = zip(_PARTS, table, self.source_table, strict=True)
            self.key_parts |= {f"{OF_SOURCE}{name}" for name, one, other in both if one != other}

    def _look_at_table(self, envelope: Envelope) -> None:
        if envelope.source is not None:
            source = envelope.source
            table = source.db, source.schema, source.table
            self._add_table(None if table == _NO_TABLE else table)
            names = {name.lower() for name in column_names(self._table, envelope.after or {})}
            self.mixes &= envelope.after is None or self._table.key_names <= names

    def _look_at_decimals(self, envelope: Envelope) -> None:
        if not self._decimals:
            return
        if envelope.source is not None and envelope.source.connector == "ydb":
            self.decimal_texts.add("plain")
        for name, value in (envelope.after or envelope.before or {}).items():
            if name.lower() in self._decimals:
                values = value if isinstance(value, list) else [value]
                texts = [text for text in values if type(text) is str]
                self.decimal_texts.update(filter(None, map(form_of, texts)))

    def look_at_old_keys(self, envelope: Envelope, record: Record, block: bytes | None) -> bool:
        """Learns about keys that the record's own key lacks; whether it learned anything new."""
        before = envelope.before
        if before is None or not self._keys:
            return False
        if record.key is None:
            return envelope.op == "u" and self._look_without_key(before, envelope.after or {})
        shape = self._shapes.get(record.topic) or self._shape_of(record)
        if envelope.op == "d" and not self.whole_old_rows:
            made_up = self._find_invented(envelope, shape.lacks - self.made_up, block)
            self.made_up |= made_up
            return bool(made_up)
        lacking = shape.lacks - self.moved
        if envelope.op == "u" and envelope.after is not None and lacking:
            return self._look_at_update(before, envelope.after, shape.has, lacking)
        return False

    def _shape_of(self, record: Record) -> _KeyShape:
        """The shape of the record's key, kept for its topic: its keys all have the same fields."""
        has = frozenset(name.lower() for name in self._names_of_key(record))
        shape = _KeyShape(has, frozenset(self._keys.keys() - has) if has else frozenset())
        self._shapes[record.topic] = shape
        return shape

    def _names_of_key(self, record: Record) -> Collection[str]:
        with suppress(NotAvro):
            self._open_key(record)
        return column_names(self._table, key_row(record.key) or {})

    def _find_invented(
        self, envelope: Envelope, candidates: frozenset[str], block: bytes | None
    ) -> set[str]:
        """The candidate keys whose value in a deleted row may be invented."""
        source, before = envelope.source, envelope.before or {}
        if not candidates or (source is not None and source.connector in WHOLE_OLD_ROWS):
            return set()
        defaults = {} if block is None else block_defaults(block)
        fields = [(name, self._field_of(name, before)) for name in candidates]
        return {
            name
            for name, field in fields
            if field is not None and self._may_be_invented(name, before[field], defaults.get(field))
        }

    def _may_be_invented(self, key: str, value: object, default: object) -> bool:
        """Whether the value may be invented; a null only where the key can be null."""
        if value is None:
            return self._keys[key] in self._nullable
        written = as_json(value)
        return written == default or _INVENTED.fullmatch(text_of(written)) is not None

    def _look_at_update(
        self, before: Row, after: Row, key_fields: frozenset[str], lacking: frozenset[str]
    ) -> bool:
        """An unchanged record key beside `before` shows REPLICA IDENTITY FULL: whole old rows."""
        moved = {name for name in lacking if self._is_moved(name, before, after)}
        differs = any(self._value_of(n, before) != self._value_of(n, after) for n in key_fields)
        if differs or (self.whole_old_rows and not moved):
            return False
        self.whole_old_rows = True
        self.moved |= moved
        return True

    def _look_without_key(self, before: Row, after: Row) -> bool:
        """Learns whether old rows are whole, from an update without a record key that moves a key.

        They are if `before` has a genuine value in a column that is no key, and in every key whose
        value differs from that in `after`: else the connector may have invented the difference.
        """
        moved = {name for name in self._keys if self._is_moved(name, before, after)}
        if self.whole_old_rows or not moved:
            return False
        keys = [self._field_of(name, before) for name in self._keys]
        columns = zip(column_names(self._table, before), before.values(), strict=True)
        others = [value for name, value in columns if name.lower() not in self._table.key_names]
        old = [before[name] for name in keys if name and before[name] != after.get(name)]
        self.whole_old_rows = _are_genuine(*old) and any(map(_are_genuine, others))
        return self.whole_old_rows

    def _is_moved(self, name: str, before: Row, after: Row) -> bool:
        has_both = None not in (self._field_of(name, before), self._field_of(name, after))
        return has_both and self._value_of(name, before) != self._value_of(name, after)

    def _value_of(self, name: str, row: Row) -> object:
        field = self._field_of(name, row)
        return field and row[field]

    def _field_of(self, name: str, row: Row) -> str | None:
        """The field of a row for a name in lower case; rows mostly spell it as earlier ones did."""
        field = self._spellings.get(name, name)
        if field in row:
            return field
        spelled = next((field for field in row if field.lower() == name), None)
        if spelled is None and self._table.renamed:
            columns = zip(column_names(self._table, row), row, strict=True)
            spelled = next((field for column, field in columns if column.lower() == name), None)
        if spelled is not None:
            self._spellings[name] = spelled
        return spelled


def _are_genuine(*values: object) -> bool:
    """Whether no value is null or may be invented: columns left out of an old row are null."""
    texts = [None if value is None else text_of(as_json(value)) for value in values]
    return not any(text is None or _INVENTED.fullmatch(text) for text in texts)
