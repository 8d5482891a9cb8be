"""Reads the Avro values of a batch in bulk, before its records are decoded one by one."""

from collections.abc import Mapping, Sequence

from bronze.contract import ID_HEADER, SCHEMA_ID_BYTES, SHORT_ID, avro_schema_id
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.bulk import (
    ROW,
    RecordType,
    Unsupported,
    Values,
    object_type,
    read_columns,
    read_records,
)
from silver.decode.avro.schemas import Writer, writer_of
from silver.decode.change import Record
from silver.decode.debezium.events.envelope import Envelope, SourceBlock, Transaction

_LONG_ID_START = bytes(SHORT_ID - 1)
"""Four zero bytes behind the first one: an id of 8 bytes, as no id of 4 bytes is 0."""
_SOURCE = object_type(SourceBlock, SourceBlock.__struct_fields__)
_TRANSACTION = object_type(Transaction, Transaction.__struct_fields__)
_ENVELOPE = object_type(
    Envelope, Envelope.__struct_fields__, source=_SOURCE, transaction=_TRANSACTION
)
_ROW_TUPLES = RecordType(lambda columns, count: list(zip(*columns.values(), strict=True)))


def read_ahead(records: Sequence[Record], schemas: Mapping[str, str], envelopes: bool) -> None:
    """Sets `value` of the Avro records that can be read in bulk, and leaves others as they are.

    With `envelopes`, Debezium's envelopes become `Envelope`; all other values become dictionaries.
    """
    raws = [record.raw for record in records]
    alike = alike_records(raws, [record.headers for record in records])
    for (id, start), places in alike.items():
        if id in schemas:
            _read_values(schemas[id], start, [records[at] for at in places], envelopes)


def alike_records(
    raws: Sequence[bytes | None], headers: Sequence[bytes | None]
) -> dict[tuple[str, int], list[int]]:
    """The indices of the records that name a schema, by its id and where their values begin."""
    alike: dict[tuple[str, int] | None, list[int]] = {}
    groups: dict[tuple[bytes, bytes | None], list[int]] = {}
    previous: bytes | tuple[()] = ()  # raw.startswith(()) is False
    group: list[int] = []
    for at, (raw, header) in enumerate(zip(raws, headers, strict=True)):
        if not raw:
            continue
        if header is not None and ID_HEADER not in header:
            header = None
        if header is not None or not raw.startswith(previous):
            head = raw[:SHORT_ID] if raw[1:SHORT_ID] != _LONG_ID_START else raw[:SCHEMA_ID_BYTES]
            previous = head if header is None else ()
            if (head, header) not in groups:
                schema = avro_schema_id(head, headers=header)
                groups[head, header] = alike.setdefault(schema, [])
            group = groups[head, header]
        group.append(at)
    return {schema: places for schema, places in alike.items() if schema is not None}


def read_envelopes(
    writer: Writer, start: int, data: Sequence[bytes]
) -> tuple[Mapping[str, Values], list[bool]] | None:
    """The members of Debezium's envelopes as columns, and which records do not fit the schema.

    Rows are tuples in the order of their fields; source blocks and transactions are objects. None
    where the envelopes have to be read one by one.
    """
    if not writer.is_envelope or writer.has_documents:
        return None
    rows = {"before": _ROW_TUPLES, "after": _ROW_TUPLES}
    parts = rows | {"source": _SOURCE, "transaction": _TRANSACTION}
    names = ("op", *parts)
    # One value for all records: the dictionary of their columns.
    envelope = RecordType(lambda columns, count: [columns], names, parts)
    try:
        values, broken = read_columns(writer.schema.parsed, envelope, data, start)
    except ValueError:
        return None
    [columns] = values
    return (columns, broken) if isinstance(columns, dict) else None


def _read_values(text: str, start: int, records: list[Record], envelopes: bool) -> None:
    try:
        writer = writer_of(text)
        is_envelope = envelopes and writer.is_envelope and not writer.has_documents
        data = [record.raw or b"" for record in records]
        values = read_records(writer.schema.parsed, _ENVELOPE if is_envelope else ROW, data, start)
    except (NotAvro, Unsupported, UnicodeError):
        return
    for record, value in zip(records, values, strict=True):
        if value is not None:
            record.value = value, writer
