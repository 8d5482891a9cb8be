"""What records show of how their source writes, beyond their columns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import Columns, declared_types
from silver.decode.debezium.events.connectors import has_position
from silver.decode.debezium.events.envelope import OF_SOURCE, Envelope, Row, Source, key_row
from silver.decode.debezium.events.order import BY_ARRIVAL, BY_SOURCE
from silver.decode.debezium.old_keys import OldKeys
from silver.decode.values.encodings import declares_decimals, holds_decimals
from silver.decode.values.inference import MOST_LEFT_OUT, UndeclaredFields
from silver.decode.values.numbers import form_of

_NO_TABLE = (None, None, None)
_CHANGES = ("c", "u", "d", "r", "t")
_MOST_KEYS = 1_000
"""So many records have their key parsed."""


class SourceTable(NamedTuple):
    """Which table of the source a record is of, as far as its source block says."""

    db: object
    schema: object
    table: object

    def is_new(self, source: Source | None) -> bool:
        """Whether a source block names another table than this one."""
        if source is None:
            return False
        return (source.db, source.schema, source.table) not in (self, _NO_TABLE)


class NewEvidence:
    """Whether records show what is not known yet of source tables, old keys and left out fields."""

    def __init__(self, table: Table, known: Columns, open_key: Callable[[Record], None]) -> None:
        told = table.is_shared or any(map(_is_of_source, known.key_parts))
        self._table = (
            None if told or known.source_table is None else SourceTable(*known.source_table)
        )
        self._old_keys = OldKeys(table, known, open_key)
        self._undeclared = UndeclaredFields(declared_types(table), known.left_out)

    @property
    def looks_into_values(self) -> bool:
        """Whether values are looked into for fields that no column holds."""
        return self._undeclared.looks

    def is_of_new_table(self, source: Source | None) -> bool:
        """Whether a record is of another source table than the first one."""
        return self._table is not None and self._table.is_new(source)

    def of_new_tables(self, sources: Sequence[Source | None]) -> list[int]:
        """The places of the sources for which `is_of_new_table`."""
        if self._table is None:
            return []
        plain = [(s.db, s.schema, s.table) if s else _NO_TABLE for s in sources]
        if all(map(self._table.__eq__, plain)):
            return []
        return [at for at, source in enumerate(sources) if self.is_of_new_table(source)]

    def is_in(self, envelope: Envelope, record: Record, block: bytes | None) -> bool:
        """Whether a record of a change shows any."""
        shows = envelope.before is not None and self._old_keys.look(envelope, record, block)
        shows |= self._undeclared.are_new(envelope.after or {})
        return shows or self.is_of_new_table(envelope.source)


def _table_of(source: Source) -> SourceTable | None:
    found = SourceTable(source.db, source.schema, source.table)
    return None if found == _NO_TABLE else found


def _is_of_source(part: str) -> bool:
    return part.startswith(OF_SOURCE)


class Evidence:
    """How decimals are written, what tells the order, which parts keys have, the source table.

    Each is a field of `Columns`; what is known of the source already counts as shown. A key that is
    no field of the row tells the rows of one source table from those of another.
    """

    def __init__(self, table: Table, known: Columns, open_key: Callable[[Record], None]) -> None:
        self.decimal_texts: set[str] = {known.decimal_texts} if known.decimal_texts else set()
        self.orders: set[str] = {known.order} if known.order else set()
        self.key_parts = set(known.key_parts)
        self.left_out = set(known.left_out)
        self._undeclared = UndeclaredFields(declared_types(table))
        named = known.source_table
        self.source_table = None if named is None else SourceTable(*named)
        self._mixes = not table.is_shared
        self._keys = {name.lower() for name in table.keys}
        self._origins = {column.origin for column in table.columns.values()}
        self._keys_to_parse = _MOST_KEYS if table.keys else 0
        self._decimals = _decimals(table, known)
        self._old_keys = OldKeys(table, known, open_key)

    @property
    def wants_keys(self) -> bool:
        """Whether the keys of more records are to be looked at."""
        return self._keys_to_parse > 0

    def look(
        self, envelope: Envelope, record: Record, block: bytes | None, flattened: bool
    ) -> None:
        """Takes in what a record shows.

        Args:
            envelope: the record's envelope.
            record: the record.
            block: the record's schema block; None without one.
            flattened: whether the record was flattened; its order has rules of its own.
        """
        if envelope.op in _CHANGES:
            self._look_at_key(record.key)
            if not flattened:
                self.orders.add(BY_SOURCE if has_position(envelope.source) else BY_ARRIVAL)
        source = envelope.source
        if source is not None and envelope.op in _CHANGES:
            self._look_at_table(_table_of(source))
            self._mixes &= envelope.after is None or self._keys <= {
                n.lower() for n in envelope.after
            }
        self.left_out |= {name for name in envelope.after or () if name.startswith("_")}
        if len(self.left_out) < MOST_LEFT_OUT:
            self.left_out |= self._undeclared.of(envelope.after or {})
        self._old_keys.look(envelope, record, block)
        if block is None and self._decimals and (source is not None or flattened):
            if source is not None and source.connector == "ydb":
                self.decimal_texts.add("plain")
            self._look_at_decimals(envelope.after or envelope.before or {})

    def merge(self, other: "Evidence") -> None:
        """Takes in what another look at records of the same table has found."""
        self.decimal_texts |= other.decimal_texts
        self.orders |= other.orders
        self.key_parts |= other.key_parts
        self.left_out |= other.left_out
        self._mixes &= other._mixes
        self._old_keys.merge(other._old_keys)
        self._look_at_table(other.source_table)

    def settled(self, known: Columns) -> Columns:
        """The known columns with what was shown; one position in a feed is enough to expect all."""
        return replace(
            known,
            decimal_texts=min(self.decimal_texts) if len(self.decimal_texts) == 1 else None,
            order=BY_SOURCE if BY_SOURCE in self.orders else min(self.orders, default=None),
            key_parts=tuple(
                sorted(p for p in self.key_parts if self._mixes or not _is_of_source(p))
            ),
            source_table=self.source_table if self._mixes else None,
            left_out=tuple(sorted(self.left_out)[:MOST_LEFT_OUT]),
            whole_old_rows=self._old_keys.whole,
            lacked_keys=self._old_keys.lacked,
        )

    def _look_at_key(self, key: bytes | None) -> None:
        """Notes the parts of a record's key that the table has as no key and as no column from it.

        The keys of a topic are of one shape, so that the first records are enough.
        """
        if key is None or not self.wants_keys:
            return
        self._keys_to_parse -= 1
        names = [name for name in key_row(key) or {} if name not in self._origins]
        self.key_parts |= {name for name in names if name.lower() not in self._keys}

    def _look_at_table(self, table: SourceTable | None) -> None:
        """Notes what tells a record's source table from the first one."""
        if self.source_table is None:
            self.source_table = table
        elif table is not None and table != self.source_table:
            both = zip(SourceTable._fields, table, self.source_table, strict=True)
            self.key_parts |= {f"{OF_SOURCE}{name}" for name, one, other in both if one != other}

    def _look_at_decimals(self, row: Row) -> None:
        for name, value in row.items():
            if name.lower() in self._decimals:
                texts = value if isinstance(value, list) else [value]
                forms = {form_of(text) for text in texts if type(text) is str}
                self.decimal_texts |= {form for form in forms if form is not None}


def _decimals(table: Table, known: Columns) -> set[str]:
    """The decimal columns, in lower case, in whose texts to look for base64."""
    if declares_decimals(table.feeds[0]):
        return set()
    return {c.name.lower() for c in known.columns if holds_decimals(c.type)}
