"""How long one process takes to decode a batch of changes that came as JSON, and as Avro.

All have the same records, with keys, in Arrow batches as a Spark task gets them; decimals are bytes
and times of change are text, as Debezium writes them unless told otherwise. JSON comes without and
with the schema block. The changes that come out are compared with those of the first format.
"""

import base64
import functools
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa

from benchmarks.events import Workload, batches, columns, key_columns, lines
from benchmarks.measure import Parts, Plan, counted, in_turn
from benchmarks.result import Line
from lakehouse.config.table import Table
from silver.decode.arrow import CARRIED, READ, DecodePlan, decode_batches
from silver.decode.change import Record
from silver.decode.columns import known_columns
from silver.decode.debezium.discovery import DebeziumDiscovery

QUESTION = "Decoding a batch of changes, by the format of its values"
JSON, BLOCKS = "JSON without schema blocks", "JSON with schema blocks"
AVRO = "Avro with a schema registry"
Row = dict[str, Any]
Write = Callable[[Any], bytes]

_FIRST, _PER_BATCH = 2_000, 10_000
_ARROW: Mapping[str, pa.DataType] = {
    "_raw": pa.binary(), "_key": pa.binary(), "_headers": pa.binary(), "_whole": pa.bool_(),
    "_partition": pa.int32(), "_offset": pa.int64(), "_batch": pa.int64(),
    "_timestamp": pa.int64(), "_arrived_at": pa.int64(), "_line": pa.int64(),
}  # fmt: skip
_ZONED, _DECIMAL = "io.debezium.time.ZonedTimestamp", "org.apache.kafka.connect.data.Decimal"
_SCALE = {"scale": "2", "connect.decimal.precision": "12"}
_CONNECT: Mapping[str, Row] = {
    "bigint": {"type": "int64"},
    "int": {"type": "int32"},
    "timestamp": {"type": "string", "name": _ZONED, "version": 1},
    "decimal(12,2)": {"type": "bytes", "name": _DECIMAL, "version": 1, "parameters": _SCALE},
}
_AVRO: Mapping[str, Any] = {
    "bigint": "long",
    "int": "int",
    "timestamp": {"type": "string", "connect.name": _ZONED},
    "decimal(12,2)": {"type": "bytes", "connect.name": _DECIMAL, "precision": 12, "scale": 2}
    | {"logicalType": "decimal", "connect.parameters": _SCALE},
}
_SOURCE = {
    "version": "string", "connector": "string", "name": "string", "ts_ms": "long",
    "snapshot": "string", "db": "string", "sequence": "string", "ts_us": "long",
    "schema": "string", "table": "string", "txId": "long", "lsn": "long", "xmin": "long",
}  # fmt: skip


class Format(NamedTuple):
    """How values and keys are written, and the schemas of these by their ids."""

    value: Write
    key: Write
    schemas: Mapping[str, str]


def title(work: Workload) -> str:
    """One line for a person."""
    return f"{work.changes:,} changes of {work.width} columns"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Each format in turn over the same changes."""
    changes = next(batches(work._replace(rows=min(work.rows, 10 * work.changes))))
    events = [_with_bytes(json.loads(line)) for line in lines(work, changes)]
    formats = {
        JSON: Format(_json, _json, {}),
        BLOCKS: Format(_wrapped(work), _json, {}),
        AVRO: _avro(work),
    }
    found: dict[str, list[pa.RecordBatch]] = {}
    steps = {}
    for name, format in formats.items():
        records = [_record(work, event, at, format) for at, event in enumerate(events)]
        plans = _plan(_table(work, name), records, format.schemas)
        steps[name] = functools.partial(_decode, plans, _arrow(records), found, name)
    taken = in_turn([steps] * plan.most, plan)
    mismatched = {name: _mismatched(found[JSON], batches) for name, batches in found.items()}
    return [counted(name, taken[name], mismatched[name]) for name in formats]


def _decode(
    plan: DecodePlan,
    records: Sequence[pa.RecordBatch],
    found: dict[str, list[pa.RecordBatch]],
    name: str,
) -> Parts:
    found[name] = list(decode_batches(plan, iter(records)))
    return {}


def _mismatched(expected: Sequence[pa.RecordBatch], found: Sequence[pa.RecordBatch]) -> int:
    """How many changes differ."""
    tables = (
        pa.Table.from_batches(batches).drop_columns(["_raw", "_facts"])
        for batches in (expected, found)
    )
    pairs = zip(*[table.to_pylist() for table in tables], strict=True)
    return sum(one != other for one, other in pairs)


def _table(work: Workload, name: str) -> Table:
    kafka = {"topic": "shop.public.orders", "bootstrap_servers": "localhost:9092"}
    registry = {"value_format": "avro", "schema_registry": {"url": "http://localhost:8081"}}
    source = {"format": "debezium", "kafka": kafka, "decimal_handling_mode": "precise"}
    types = {column.name: column.type for column in columns(work)}
    keys = [column.name for column in key_columns(work)]
    given = {"table": "orders", "keys": keys, "columns": types}
    given["source"] = source | (registry if name == AVRO else {})
    return Table.model_validate(given)


def _plan(table: Table, records: Sequence[Record], schemas: Mapping[str, str]) -> DecodePlan:
    """As silver decodes a batch of which it looked through the first records."""
    discovery = DebeziumDiscovery(table, replace(known_columns(table, {}), schemas=schemas))
    for record in records[:_FIRST]:
        discovery.look(replace(record), record.arrival)
    found, _ = discovery.settle(whole=False)
    return DecodePlan(table, found, found.schema(), keeps_raw=False)


def _record(work: Workload, event: Mapping[str, Any], at: int, format: Format) -> Record:
    row = event["after"] or event["before"]
    key = {column.name: row[column.name] for column in key_columns(work)}
    return Record(
        raw=format.value(event),
        key=format.key(key),
        headers=None,
        topic="shop.public.orders",
        partition=0,
        offset=at,
        timestamp=0,
        arrived_at=0,
        arrival=f"{at:08X}",
    )


def _arrow(records: Sequence[Record]) -> list[pa.RecordBatch]:
    """The records as Spark hands them over."""
    given = {name: [getattr(one, name[1:]) for one in records] for name in READ}
    beside = {"_feed": "orders", "_batch": 1, "_path": "orders", "_line": 0}
    given |= {name: [value] * len(records) for name, value in beside.items()}
    names = list(dict.fromkeys((*READ, *CARRIED)))
    arrays = [pa.array(given[name], _ARROW.get(name, pa.string())) for name in names]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, names=names).to_batches(_PER_BATCH)
    return batches


def _with_bytes(event: Row) -> Row:
    """The event with the total as bytes in two's complement."""
    if event["after"] is not None:
        cents = int(event["after"]["total"].replace(".", ""))
        event["after"]["total"] = cents.to_bytes(cents.bit_length() // 8 + 1, "big", signed=True)
    return event


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=_base64).encode()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _wrapped(work: Workload) -> Write:
    """Values with their schema, as Kafka Connect's JSON converter writes them."""
    of_text = {"type": "string"}
    fields = [
        {**_CONNECT.get(column.type, of_text), "optional": True, "field": column.name}
        for column in columns(work)
    ]
    source = [{"type": type, "optional": True, "field": name} for name, type in _SOURCE.items()]
    parts = {"before": fields, "after": fields, "source": source}
    blocks = [
        {"type": "struct", "fields": own, "optional": True, "field": name}
        for name, own in parts.items()
    ]
    schema = {"type": "struct", "fields": blocks, "optional": False, "name": "shop.Envelope"}
    return lambda event: _json({"schema": schema, "payload": event})


def _avro(work: Workload) -> Format:
    """Envelopes and keys as Debezium's Avro converter writes them."""
    keys = [column.name for column in key_columns(work)]
    types = {column.name: _AVRO.get(column.type, "string") for column in columns(work)}
    row = _schema("Value", {n: t if n in keys else ["null", t] for n, t in types.items()})
    envelope = {
        "before": ["null", row],
        "after": ["null", "Value"],
        "source": _schema("Source", {n: ["null", type] for n, type in _SOURCE.items()}),
        "op": "string",
        "ts_ms": ["null", "long"],
    }
    schemas = [_schema("Envelope", envelope), _schema("Key", {name: types[name] for name in keys})]
    value, key = (_writer(id, schema) for id, schema in enumerate(schemas, 1))
    return Format(value, key, {str(id): json.dumps(one) for id, one in enumerate(schemas, 1)})


def _schema(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    told = [{"name": field, "type": type} for field, type in fields.items()]
    return {"type": "record", "name": name, "fields": told}


def _writer(id: int, schema: dict[str, Any]) -> Write:
    parsed = fastavro.parse_schema(schema)

    def write(value: object) -> bytes:
        out = io.BytesIO(b"\0" + id.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    return write
