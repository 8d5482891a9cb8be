"""How long one process takes to decode a batch of changes that came as JSON, and as Avro.

Both have the same records, with keys, in Arrow batches as a Spark task gets them; the JSON comes
without a schema block. The changes that come out of the Avro are compared with those of the JSON.
"""

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
from lakehouse.table import Table
from silver.decode.arrow import CARRIED, READ, DecodePlan, decode_batches
from silver.decode.change import Record
from silver.decode.columns import known_columns
from silver.decode.debezium.discovery import Discovery

QUESTION = "Decoding a batch of changes, by the format of its values"
JSON, AVRO = "JSON without schema blocks", "Avro with a schema registry"
Write = Callable[[object], bytes]

_FIRST, _PER_BATCH = 2_000, 10_000
_ARROW: Mapping[str, pa.DataType] = {
    "_raw": pa.binary(), "_key": pa.binary(), "_headers": pa.binary(), "_whole": pa.bool_(),
    "_partition": pa.int32(), "_offset": pa.int64(), "_batch": pa.int64(),
    "_timestamp": pa.int64(), "_arrived_at": pa.int64(),
}  # fmt: skip
_ZONED = {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}
_AVRO: Mapping[str, Any] = {"bigint": "long", "int": "int", "timestamp": _ZONED}
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
    events = [json.loads(line) for line in lines(work, changes)]
    found: dict[str, list[pa.RecordBatch]] = {}
    steps = {}
    for name, format in ((JSON, Format(_compact, _compact, {})), (AVRO, _avro(work))):
        records = [_record(work, event, at, format) for at, event in enumerate(events)]
        plans = _plan(_table(work, name), records, format.schemas)
        steps[name] = functools.partial(_decode, plans, _arrow(records), found, name)
    taken = in_turn([steps] * plan.most, plan)
    unlike = _unlike(found[JSON], found[AVRO])
    return [counted(JSON, taken[JSON]), counted(AVRO, taken[AVRO], unlike)]


def _decode(
    plan: DecodePlan,
    records: Sequence[pa.RecordBatch],
    found: dict[str, list[pa.RecordBatch]],
    name: str,
) -> Parts:
    found[name] = list(decode_batches(plan, iter(records)))
    return {}


def _unlike(expected: Sequence[pa.RecordBatch], found: Sequence[pa.RecordBatch]) -> int:
    """How many changes differ."""
    tables = (pa.Table.from_batches(batches).drop_columns("_raw") for batches in (expected, found))
    pairs = zip(*[table.to_pylist() for table in tables], strict=True)
    return sum(one != other for one, other in pairs)


def _table(work: Workload, name: str) -> Table:
    kafka = {"topic": "shop.public.orders", "bootstrap_servers": "localhost:9092"}
    registry = {"value_format": "avro", "schema_registry": {"url": "http://localhost:8081"}}
    source = {"format": "debezium", "kafka": kafka} | (registry if name == AVRO else {})
    types = {column.name: column.type for column in columns(work)}
    keys = [column.name for column in key_columns(work)]
    given = {"table": "orders", "keys": keys, "source": source, "columns": types}
    return Table.model_validate(given)


def _plan(table: Table, records: Sequence[Record], schemas: Mapping[str, str]) -> DecodePlan:
    """As silver decodes a batch of which it looked through the first records."""
    discovery = Discovery(table, replace(known_columns(table, {}), schemas=schemas))
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
        whole=False,
        arrival=f"{at:08X}",
    )


def _arrow(records: Sequence[Record]) -> list[pa.RecordBatch]:
    """The records as Spark hands them over."""
    given = {name: [getattr(one, name[1:]) for one in records] for name in READ}
    beside = {"_feed": "orders", "_batch": 1, "_place": "orders/0"}
    given |= {name: [value] * len(records) for name, value in beside.items()}
    names = list(dict.fromkeys((*READ, *CARRIED)))
    arrays = [pa.array(given[name], _ARROW.get(name, pa.string())) for name in names]
    return pa.Table.from_arrays(arrays, names=names).to_batches(_PER_BATCH)


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


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
