"""Rows that Debezium wrote and a transform flattened, as records of format rows.

Such a row may lie in a wrapper with its schema block, hold dates as days, times as ticks and
decimals as base64, and have placeholders in place of values that the source left out.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial

import pyarrow.compute as pc
from pyspark.sql import types as T

from bronze.contract import avro_schema_id
from lakehouse.config.table import Table
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.schemas import avro_value
from silver.decode.avro.values import as_json
from silver.decode.change import BAD_SEQUENCE, ILLEGAL_CHANGE, NOT_AVRO, Record
from silver.decode.columns import Columns, DecodedColumn
from silver.decode.debezium.events.placeholders import Placeholders, can_be_placeholder
from silver.decode.expressions.names import deletes_sql
from silver.decode.protocols.converters import ValueReader, plain_reader
from silver.decode.protocols.envelopes import EnvelopeOpener, EnvelopeRow
from silver.decode.protocols.file_rows import FileRows
from silver.decode.protocols.objects import Fault, broken_row
from silver.decode.protocols.slices import FlatRow, RowTraits
from silver.decode.slices import Slice
from silver.decode.types import Misfit, arrow_type, carrier_type, parse_type
from silver.decode.values.bulk import bulk_converter
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
from silver.decode.wrapped import holds_rows, open_row

_FIRST_WRITES = ("c", "r")
_TOMBSTONE = Fault(
    BAD_SEQUENCE,
    "a tombstone deletes its key, but has nothing that sequence_by could order, expected deletes "
    "as rows (apply_as_deletes), or format debezium with envelope: flattened",
)
_ENVELOPE = Fault(
    ILLEGAL_CHANGE,
    "found an envelope of Canal, Maxwell or CloudEvents, which has its rows in data, expected flat "
    "rows, or source.format: canal or maxwell; a table of the envelopes themselves declares the "
    "column data",
)


class RowOpener(FileRows):
    """Opens the records of one table of format rows."""

    def __init__(self, table: Table, columns: Columns) -> None:
        super().__init__(table, columns, filter(None, [table.columns_to_update]))
        self._avro = {source.value_format == "avro" for source in table.feeds}
        self._schemas = columns.schemas
        self._source = table.feeds[0]
        parts = self._source.parts
        self._deletes_are_rows = bool(deletes_sql(table) or (parts and parts.deletes))
        self._takes_envelopes = "data" in table.columns
        self._placeholders = Placeholders(self._source.unavailable_value)
        self._tokens = [text.encode() for text in self._placeholders.texts if text[:1] not in "[{"]
        respell = partial(self.completed, file=None)
        self.envelope = None if parts is None else EnvelopeOpener(table, parts, respell)
        self._wraps = not {"schema", "payload"} & {*table.keys, *table.columns}
        self._fixed = {
            name
            for name, column in table.columns.items()
            if not can_be_placeholder(parse_type(column.type))
        } | {*table.keys}

    def open_record(self, record: Record) -> FlatRow | Fault | None:
        """The row that a record holds; a tombstone is a fault, or says nothing."""
        value, block = self._open_value(record)
        if not isinstance(value, dict):
            return value
        members = self.completed(value, record.file)
        if fault := self.refuse(members):
            return fault
        left_out: frozenset[str] = frozenset()
        if any(token in (record.raw or b"") for token in self._tokens):
            left_out = self._left_out(members)
            members = members | dict.fromkeys(left_out)
        return FlatRow(members, RowTraits(False, block, left_out))

    def unfold(self, records: Slice) -> tuple[list[int], list[EnvelopeRow | Fault | None]]:
        """The rows within records, and the places of their records."""
        places: list[int] = []
        rows: list[EnvelopeRow | Fault | None] = []
        for at, record in enumerate(records.records(range(records.part.num_rows))):
            opened = [*self.rows_within(record)]
            places += [at] * len(opened)
            rows += opened
        return places, rows

    def rows_within(self, record: Record) -> Iterator[EnvelopeRow | Fault | None]:
        """The rows within a record."""
        value, _ = self._open_value(record)
        if isinstance(value, dict) and self.envelope is not None:
            yield from self.envelope.open(value)
        else:
            yield value if not isinstance(value, dict) else None

    def _open_value(self, record: Record) -> tuple[dict[str, object] | Fault | None, bytes | None]:
        """The object that a record's value is, or why it is none; and its schema block."""
        raw, is_noted = record.raw, record.key is None or self._deletes_are_rows
        try:
            value, block = (None, None) if raw is None else self._unwrap(raw, record)
        except NotAvro as error:
            return Fault(NOT_AVRO, str(error)), None
        except NotJson:
            return broken_row(raw or b"", self._table), None
        if raw is None or value is None:
            return None if is_noted else _TOMBSTONE, None
        return value if isinstance(value, dict) else broken_row(raw, self._table), block

    def list_plain(self, records: Slice) -> list[int]:
        """The indices of records in JSON, but for those with a wrapper or values left out."""
        indices, raws = records.places, records.part.column("_raw")
        for text in [b'"payload"', *self._tokens]:
            matches = pc.match_substring(raws, text.decode())
            if matches.true_count:
                matched = matches.to_pylist()
                indices = [at for at in indices if not matched[at]]
        return [] if True in self._avro else indices

    def refuse(self, members: Collection[str]) -> Fault | None:
        """The fault of envelopes, though the table expects flat rows; None for other members."""
        is_envelope = holds_rows(dict.fromkeys(members)) and not self._takes_envelopes
        return _ENVELOPE if is_envelope else None

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

    def reader(self, block: bytes | None, column: DecodedColumn, settled: bool) -> ValueReader:
        """What reads the values of a column that Debezium wrote.

        A value that has the column's own form already is taken as it is, but for decimals and bytes
        where `source.decimal_handling_mode` or `binary_handling_mode` says what texts are. A column
        that nobody declared has the type of its JSON values.
        """
        plain = plain_reader(column, settled)
        if not column.declared:
            return plain
        fields = {} if block is None else row_block_fields(block)
        spelled = zip(self.spellings([*fields]), fields.values(), strict=True)
        given = next((one for name, one in spelled if name == column.name), None)
        if given is not None:
            encoding, arrow = in_mode(given, column.type, self._source), carrier_type(column.type)
            bulk = bulk_converter(encoding, column.type, arrow_type(arrow))
            return ValueReader(converter_of(encoding, column.type), bulk)
        encoded = converter_of(assume_encoding(column.type, self._source), column.type)
        is_declared = holds_decimals(column.type) and declares_decimals(self._source)
        is_declared |= isinstance(column.type, T.BinaryType) and declares_binaries(self._source)

        def try_both(value: object) -> object:
            try:
                return plain.convert(value)
            except Misfit:
                return encoded(value)

        is_decimal = isinstance(column.type, T.DecimalType)
        return ValueReader(encoded if is_declared else try_both, None if is_decimal else plain.bulk)

    def _is_avro(self, raw: bytes, record: Record) -> bool:
        """Whether a value is Avro; where only some sources have Avro, its schema's id decides."""
        if True not in self._avro:
            return False
        return len(self._avro) == 1 or avro_schema_id(raw, headers=record.headers) is not None

    def _left_out(self, members: Mapping[str, object]) -> frozenset[str]:
        if members.get("__op") in _FIRST_WRITES:
            return frozenset()
        match = self._placeholders.match
        return frozenset(n for n, v in members.items() if n not in self._fixed and match(v))
