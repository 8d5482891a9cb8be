"""The ENDs of source transactions, as Debezium writes them to the connector's transaction topic."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
import pyarrow as pa

from silver.decode.avro.binary import NotAvro
from silver.decode.avro.schemas import decode_avro
from silver.decode.values.json_values import NotJson, parser_of
from silver.decode.wrapped import strip_frame, value_inside


class End(NamedTuple):
    """The end of a transaction.

    Attributes:
        id: the transaction's id; PostgreSQL's is `txId:lsn`.
        counts: the transaction's records by source table (`schema.table`), as numbers; None where
            the END has none.
        ended_at: commit time in microseconds since 1970.
    """

    id: str
    counts: list[tuple[str, int]] | None
    ended_at: int | None


class _Collection(msgspec.Struct, gc=False):
    data_collection: object = None
    event_count: object = None


class _Marker(msgspec.Struct, gc=False):
    status: object = None
    id: object = None
    data_collections: list[_Collection] | None = None
    ts_ms: object = None


class _MarkerValue(_Marker, gc=False):
    payload: _Marker | None = None


_parse_value = parser_of(_MarkerValue)

_END_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("ended_at", pa.timestamp("us", tz="UTC")),
        ("feed_batch", pa.int64()),
        ("_arrival", pa.string()),
    ]
)
READ = ("_raw", "_headers", "_whole", "_batch", "_arrival")
"""The columns that `end_batches` takes; `_raw` and `_headers` are binary."""
END_COLUMNS = (
    "id string, counts map<string,bigint>, ended_at timestamp, feed_batch bigint, _arrival string"
)
"""The columns that `end_batches` gives."""


def read_end(raw: bytes | None, whole: bool) -> End | None:
    """The END in a JSON record; None for every other record.

    `whole` says that `raw` is a whole record as JSON, the value being a member.
    """
    text = value_inside(raw) if raw and whole else raw
    if not text:
        return None
    try:
        value = _parse_value(strip_frame(text))
    except NotJson:
        return None
    return _parse_end(value.payload or value)


def read_avro_end(
    raw: bytes | None, headers: bytes | None, schemas: Mapping[str, str]
) -> End | None:
    """The END in an Avro record; None for every other record."""
    if not raw:
        return None
    try:
        value, _ = decode_avro(raw, schemas, headers)
        return _parse_end(msgspec.convert(value, _Marker))
    except (NotAvro, msgspec.ValidationError):
        return None


def _parse_end(marker: _Marker | None) -> End | None:
    if not marker or marker.status != "END" or not isinstance(marker.id, str):
        return None
    ended_at = marker.ts_ms * 1_000 if isinstance(marker.ts_ms, int) else None
    return End(marker.id, _parse_counts(marker.data_collections), ended_at)


def end_batches(
    schemas: Mapping[str, str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The ENDs among rows of `READ`; `schemas` are Avro's by id, empty where all is JSON."""
    for batch in batches:
        rows = zip(*[batch.column(name).to_pylist() for name in READ], strict=True)
        ends = [
            (read_avro_end(raw, headers, schemas) if schemas else read_end(raw, whole), *origin)
            for raw, headers, whole, *origin in rows
        ]
        kept = [(*end, *origin) for end, *origin in ends if end is not None]
        columns = zip(*kept, strict=True) if kept else [()] * len(_END_SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _END_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_END_SCHEMA)


def _parse_counts(collections: list[_Collection] | None) -> list[tuple[str, int]] | None:
    """The counts, one per source table."""
    if collections is None:
        return None
    counts: dict[str, int] = {}
    for collection in collections:
        name, count = collection.data_collection, collection.event_count
        if isinstance(name, str):
            counts[name] = counts.get(name, 0) + (count if isinstance(count, int) else 0)
    return list(counts.items())
