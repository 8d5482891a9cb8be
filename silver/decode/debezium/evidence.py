"""What records show of how their source writes, beyond their columns."""

from dataclasses import replace

from lakehouse.table import Table
from silver.decode.change import Record
from silver.decode.columns import Columns
from silver.decode.debezium.events.envelope import Envelope, Row, key_row
from silver.decode.debezium.events.order import BY_ARRIVAL, BY_SOURCE, has_position
from silver.decode.debezium.values.encodings import declares_decimals, holds_decimals
from silver.decode.debezium.values.numbers import form_of

_CHANGES = ("c", "u", "d", "r", "t")
_MOST_KEYS = 1_000
"""So many records have their key parsed."""


class Evidence:
    """How decimals are written, what tells the order, and which parts keys have.

    Each is a field of `Columns`; what is known of the source already counts as shown.
    """

    def __init__(self, table: Table, known: Columns) -> None:
        self.decimal_texts: set[str] = {known.decimal_texts} if known.decimal_texts else set()
        self.orders: set[str] = {known.order} if known.order else set()
        self.key_parts = set(known.key_parts)
        self._keys = {name.lower() for name in table.keys}
        self._origins = {column.origin for column in table.columns.values()}
        self._keys_to_parse = _MOST_KEYS if table.keys else 0
        self._decimals = _decimals(table, known)

    @property
    def wants_keys(self) -> bool:
        """Whether the keys of more records are to be looked at."""
        return self._keys_to_parse > 0

    def look(self, envelope: Envelope, record: Record, plain: bool, flattened: bool) -> None:
        """Takes in what a record shows.

        Args:
            envelope: the record's envelope.
            record: the record.
            plain: whether the record has no schema block.
            flattened: whether the record was flattened; its order has rules of its own.
        """
        if envelope.op in _CHANGES:
            self._look_at_key(record.key)
            if not flattened:
                self.orders.add(BY_SOURCE if has_position(envelope.source) else BY_ARRIVAL)
        source = envelope.source
        if plain and self._decimals and (source is not None or flattened):
            if source is not None and source.connector == "ydb":
                self.decimal_texts.add("plain")
            self._look_at_decimals(envelope.after or envelope.before or {})

    def merge(self, other: "Evidence") -> None:
        """Takes in what another look at records of the same table has found."""
        self.decimal_texts |= other.decimal_texts
        self.orders |= other.orders
        self.key_parts |= other.key_parts

    def settled(self, known: Columns) -> Columns:
        """The known columns with what was shown; one position in a feed is enough to expect all."""
        return replace(
            known,
            decimal_texts=min(self.decimal_texts) if len(self.decimal_texts) == 1 else None,
            order=BY_SOURCE if BY_SOURCE in self.orders else min(self.orders, default=None),
            key_parts=tuple(sorted(self.key_parts)),
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
