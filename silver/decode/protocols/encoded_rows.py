"""Rows that Debezium wrote and a transform flattened, as records of format rows.

Such a row may lie in a wrapper with its schema block, hold dates as days, times as ticks and
decimals as base64, and have placeholders in place of values that the source left out.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import types as T

from bronze.contract import avro_schema_id
from lakehouse.config.table import Table
from silver.decode.avro.schemas import avro_value
from silver.decode.avro.values import as_json
from silver.decode.change import Record
from silver.decode.columns import Columns, DecodedColumn
from silver.decode.debezium.events.flattened import has_added_members
from silver.decode.debezium.events.placeholders import Placeholders, can_be_placeholder
from silver.decode.protocols.converters import plain_converter
from silver.decode.protocols.file_rows import FileRows
from silver.decode.types import Misfit, parse_type
from silver.decode.values.converters import converter_of
from silver.decode.values.encodings import (
    assume_encoding,
    declares_binaries,
    declares_decimals,
    holds_decimals,
    in_mode,
    row_block_fields,
)
from silver.decode.values.json_values import NotJson, parse_json
from silver.decode.values.numbers import Converter
from silver.decode.wrapped import open_row

_FIRST_WRITES = ("c", "r")


class EncodedRow(NamedTuple):
    """A row out of its wrapper.

    Attributes:
        members: its members, null for those that the source left out; None for a null value.
        block: the text of its schema block; None without one.
        encoded: whether Debezium wrote its values.
        left_out: members whose values the source left out.
    """

    members: Mapping[str, object] | None
    block: bytes | None = None
    encoded: bool = False
    left_out: frozenset[str] = frozenset()


class RowOpener:
    """Opens the records of one table of format rows.

    Attributes:
        rows: how the names of rows are spelled.
        takes_plain_rows: whether records may be plain rows in JSON.
        marks: texts in a record that is maybe no plain row: wrapped, or with values left out.
    """

    def __init__(self, table: Table, columns: Columns) -> None:
        listing = table.columns_to_update
        self.rows = FileRows(table, columns, [listing] if listing else [])
        self._avro = {source.value_format == "avro" for source in table.feeds}
        self.takes_plain_rows = True not in self._avro
        self._schemas = columns.schemas
        self._source = table.feeds[0]
        self._placeholders = Placeholders(self._source.unavailable_value)
        self._tokens = [text.encode() for text in self._placeholders.texts if text[:1] not in "[{"]
        self.marks = [b'"payload"', *self._tokens]
        self._wraps = not {"schema", "payload"} & {*table.keys, *table.columns}
        self._fixed = {
            name
            for name, column in table.columns.items()
            if not can_be_placeholder(parse_type(column.type))
        } | {*table.keys}

    def open(self, record: Record) -> EncodedRow:
        """The row that a record holds.

        Raises:
            NotJson: the record is no JSON object.
            NotAvro: the record is not Avro of a schema that bronze keeps.
        """
        raw = record.raw or b""
        value, block = self._unwrap(raw, record)
        if value is None:
            return EncodedRow(None)
        if not isinstance(value, dict):
            raise NotJson("found no object")
        members = self.rows.completed(value, record)
        encoded = block is not None or (b'"__' in raw and has_added_members(members))
        left_out: frozenset[str] = frozenset()
        if any(token in raw for token in self._tokens):
            left_out = self._left_out(members)
            members = members | dict.fromkeys(left_out)
        return EncodedRow(members, block, encoded, left_out)

    def _unwrap(self, raw: bytes, record: Record) -> tuple[object, bytes | None]:
        """The value in a record, null only where it was wrapped or Avro; and its schema block."""
        if self._is_avro(raw, record):
            value, writer = avro_value(record, self._schemas)
            return as_json(value), writer.text
        if self._wraps and b'"payload"' in raw:
            return open_row(record)
        value = parse_json(raw)
        if value is None:
            raise NotJson("found null, expected an object")
        return value, None

    def converter(self, block: bytes | None, column: DecodedColumn, settled: bool) -> Converter:
        """What converts the values of a column that Debezium wrote.

        A value that has the column's own form already is taken as it is, but for decimals and bytes
        where `source.decimal_handling_mode` or `binary_handling_mode` says what texts are. A column
        that nobody declared has the type of its JSON values.
        """
        plain = plain_converter(column, settled)
        if not column.declared:
            return plain
        fields = {} if block is None else row_block_fields(block)
        spelled = zip(self.rows.spellings([*fields]), fields.values(), strict=True)
        given = next((one for name, one in spelled if name == column.name), None)
        if given is not None:
            return converter_of(in_mode(given, column.type, self._source), column.type)
        encoded = converter_of(assume_encoding(column.type, self._source), column.type)
        is_declared = holds_decimals(column.type) and declares_decimals(self._source)
        is_declared |= isinstance(column.type, T.BinaryType) and declares_binaries(self._source)

        def try_both(value: object) -> object:
            try:
                return plain(value)
            except Misfit:
                return encoded(value)

        return encoded if is_declared else try_both

    def _is_avro(self, raw: bytes, record: Record) -> bool:
        """Whether a value is Avro; where only some sources have Avro, its schema's id decides."""
        if self.takes_plain_rows:
            return False
        return len(self._avro) == 1 or avro_schema_id(raw, headers=record.headers) is not None

    def _left_out(self, members: Mapping[str, object]) -> frozenset[str]:
        if members.get("__op") in _FIRST_WRITES:
            return frozenset()
        match = self._placeholders.match
        return frozenset(n for n, v in members.items() if n not in self._fixed and match(v))
