"""The ENDs in a transaction topic whose records are Avro are those of the same records in JSON."""

import json
from typing import Any

import pyarrow as pa
import pytest

from silver.groups.transaction_marks import READ, End, end_batches, read_avro_end, read_end
from tests.helpers.avro import optional, packed, registered

COLLECTION = {
    "type": "record",
    "name": "Collection",
    "fields": [
        {"name": "data_collection", "type": "string"},
        {"name": "event_count", "type": "long"},
    ],
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "TransactionMetadataValue",
    "namespace": "io.debezium.connector.common",
    "fields": [
        {"name": "status", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "event_count", **optional("long")},
        {"name": "data_collections", **optional({"type": "array", "items": COLLECTION})},
        {"name": "ts_ms", "type": "long"},
    ],
}
COUNTS = [{"data_collection": "shop.orders", "event_count": 2}]
END = {"status": "END", "id": "7:90", "event_count": 2, "data_collections": COUNTS, "ts_ms": 5}
BEGIN = {"status": "BEGIN", "id": "7:90", "ts_ms": 4}
SCHEMAS = registered(SCHEMA)


@pytest.mark.parametrize("value", [END, BEGIN, END | {"data_collections": None}])
def test_an_end_in_avro_is_that_in_json(value: dict[str, Any]) -> None:
    found = read_avro_end(packed(SCHEMA, 1, value), None, SCHEMAS)

    assert found == read_end(json.dumps(value).encode(), False)
    assert (found is None) == (value is BEGIN)


@pytest.mark.parametrize(
    "framed",
    [
        b"\0\0\0\0\x07" + json.dumps(END).encode(),
        b"\0\0\0\0\x07" + json.dumps(END).encode() + b"\n",
        json.dumps(json.dumps(END)).encode(),
    ],
)
def test_an_end_is_read_without_its_serializer_s_frame(framed: bytes) -> None:
    assert read_end(framed, False) == End("7:90", [("shop.orders", 2)], 5_000)


@pytest.mark.parametrize("raw", [None, b"", b"{}", b"\0\0\0\0\x01\x02", b"\0\0\0\0\x09x"])
def test_what_is_no_avro_of_a_kept_schema_is_no_end(raw: bytes | None) -> None:
    assert read_avro_end(raw, None, SCHEMAS) is None


def test_an_end_may_be_named_in_headers() -> None:
    headers = b'{"apicurio.value.contentId":"4"}'
    raw = packed(SCHEMA, 1, END)[5:]

    assert read_avro_end(raw, headers, {"content:4": SCHEMAS["1"]}) == End(
        "7:90", [("shop.orders", 2)], 5_000
    )


def test_batches_of_avro_bring_their_ends() -> None:
    raws = [packed(SCHEMA, 1, value) for value in (BEGIN, END)]
    columns = [raws, [None, None], [False, False], [3, 3], ["a", "b"]]
    types = [pa.binary(), pa.binary(), pa.bool_(), pa.int64(), pa.string()]
    arrays = [pa.array(column, type) for column, type in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(READ))

    [found] = end_batches(SCHEMAS, iter([batch]))

    [row] = found.to_pylist()
    assert (row["id"], row["counts"], row["feed_batch"], row["_arrival"]) == (
        "7:90",
        [("shop.orders", 2)],
        3,
        "b",
    )
