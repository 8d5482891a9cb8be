"""The Avro values of a batch, read together before its records are decoded one by one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from bronze.contract import ID_HEADER, SCHEMA_ID_BYTES, SHORT_ID, avro_schema_id
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.bulk import ROW, RecordType, Unsupported, object_type, read_records
from silver.decode.avro.schemas import Writer, writer_of
from silver.decode.change import Record
from silver.decode.debezium.events.envelope import Envelope, Source, Transaction

_LONG = bytes(SHORT_ID - 1)
_SOURCE = object_type(Source, Source.__struct_fields__)
_TRANSACTION = object_type(Transaction, Transaction.__struct_fields__)

RowTypes = Callable[[Writer], RecordType]
"""What the rows in a writer's envelopes become."""


@runtime_checkable
class ConvertsRows(Protocol):
    """A decoder that converts the rows of many envelopes together."""

    def row_type(self, writer: Writer) -> RecordType:
        """What the new rows in a writer's envelopes become."""
        ...


def dictionary_rows(writer: Writer) -> RecordType:
    """Rows as they are."""
    return ROW


def read_ahead(
    records: Iterable[Record], schemas: Mapping[str, str], row_types: RowTypes | None
) -> None:
    """Sets `value` of the records that are Avro and can be read together.

    What cannot is left to be read record by record.

    Args:
        records: the records of a batch.
        schemas: those that bronze keeps, by id.
        row_types: what the new rows in Debezium's envelopes become; with None, such envelopes are
            dictionaries too, and not `Envelope`.
    """
    alike: dict[tuple[str, int] | None, list[Record]] = {}
    known: dict[tuple[bytes, bytes | None], list[Record]] = {}
    newest: bytes | tuple[()] = ()
    group: list[Record] = []
    for record in records:
        raw, headers = record.raw, record.headers
        if not raw:
            continue
        if headers is not None and ID_HEADER not in headers:
            headers = None
        if headers is not None or not raw.startswith(newest):
            head = raw[:SHORT_ID] if raw[1:SHORT_ID] != _LONG else raw[:SCHEMA_ID_BYTES]
            newest = head if headers is None else ()
            if (head, headers) not in known:
                found = avro_schema_id(head, headers=headers)
                known[head, headers] = alike.setdefault(found, [])
            group = known[head, headers]
        group.append(record)
    for found, group in alike.items():
        if found is not None and found[0] in schemas:
            _read(schemas[found[0]], found[1], group, row_types)


def _read(text: str, start: int, records: list[Record], row_types: RowTypes | None) -> None:
    try:
        writer = writer_of(text)
        type = ROW
        if row_types is not None and writer.is_envelope and not writer.has_documents:
            type = _envelope(row_types(writer))
        data = [record.raw or b"" for record in records]
        values = read_records(writer.schema.parsed, type, data, start)
    except (NotAvro, Unsupported, UnicodeError):
        return
    for record, value in zip(records, values, strict=True):
        if value is not None:
            record.value = value, writer


def _envelope(after: RecordType) -> RecordType:
    names = Envelope.__struct_fields__
    return object_type(Envelope, names, after=after, source=_SOURCE, transaction=_TRANSACTION)
