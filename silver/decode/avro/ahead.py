"""The Avro values of a batch, read together before its records are decoded one by one."""

from collections.abc import Iterable, Mapping

from bronze.contract import ID_HEADER, SCHEMA_ID_BYTES, SHORT_ID, avro_schema_id
from silver.decode.avro.binary import NotAvro
from silver.decode.avro.bulk import ROW, RecordType, Unsupported, read_records
from silver.decode.avro.schemas import writer_of
from silver.decode.change import Record
from silver.decode.debezium.events.envelope import Envelope, Source, Transaction

_LONG = bytes(SHORT_ID - 1)
_ENVELOPE = RecordType(
    Envelope,
    Envelope.__struct_fields__,
    {
        "source": RecordType(Source, Source.__struct_fields__),
        "transaction": RecordType(Transaction, Transaction.__struct_fields__),
    },
)


def read_ahead(records: Iterable[Record], schemas: Mapping[str, str], has_envelopes: bool) -> None:
    """Sets `value` of the records that are Avro and can be read together.

    What cannot is left to be read record by record.

    Args:
        records: the records of a batch.
        schemas: those that bronze keeps, by id.
        has_envelopes: whether Debezium's envelopes of rows become `Envelope`, and not dictionaries.
    """
    alike: dict[tuple[str, int] | None, list[Record]] = {}
    known: dict[tuple[bytes, bytes | None], list[Record]] = {}
    for record in records:
        raw, headers = record.raw, record.headers
        if not raw:
            continue
        if headers is not None and ID_HEADER not in headers:
            headers = None
        head = raw[:SHORT_ID] if raw[1:SHORT_ID] != _LONG else raw[:SCHEMA_ID_BYTES]
        group = known.get((head, headers))
        if group is None:
            found = avro_schema_id(head, headers=headers)
            group = known[head, headers] = alike.setdefault(found, [])
        group.append(record)
    for found, group in alike.items():
        if found is not None and found[0] in schemas:
            _read(schemas[found[0]], found[1], group, has_envelopes)


def _read(text: str, start: int, records: list[Record], has_envelopes: bool) -> None:
    try:
        writer = writer_of(text)
        of_rows = has_envelopes and writer.is_envelope and not writer.has_documents
        type = _ENVELOPE if of_rows else ROW
        data = [record.raw or b"" for record in records]
        values = read_records(writer.schema.parsed, type, data, start)
    except (NotAvro, Unsupported, UnicodeError):
        return
    for record, value in zip(records, values, strict=True):
        if value is not None:
            record.value = value, writer
