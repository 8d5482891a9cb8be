"""What it costs to decode one record of each format, without Spark, beside another checkout.

    python -m benchmarks.decode [--against DIR] [--records N] [--rounds N] [FORMAT ...]

Prints per format the best processor time of a record in microseconds, Python calls of a record,
and how many times as long as msgspec takes to parse the same texts into dicts in that process.
Both checkouts decode the same bytes in processes of their own that take turns. `in order` is the
first snapshot of `benchmarks.events`, `disorder` a batch of its changes.
"""

import argparse
import base64
import gc
import importlib.util
import io
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import msgspec
import pyarrow as pa

from lakehouse.config.table import Table
from silver.decode.arrow import (
    CARRIED,
    READ,
    DecodePlan,
    DiscoveryPlan,
    decode_batches,
    discover_batches,
)
from silver.decode.columns import known_columns

Row = dict[str, Any]
_COLUMNS = {
    "id": "bigint",
    "name": "string",
    "quantity": "int",
    "total": "decimal(12,2)",
    "updated_at": "timestamp",
    "active": "boolean",
    "price": "double",
}
_ZONED, _DECIMAL = "io.debezium.time.ZonedTimestamp", "org.apache.kafka.connect.data.Decimal"
_SCALE = {"scale": "2", "connect.decimal.precision": "12"}
_CONNECT: dict[str, Row] = {
    "bigint": {"type": "int64"},
    "int": {"type": "int32"},
    "boolean": {"type": "boolean"},
    "double": {"type": "double"},
    "string": {"type": "string"},
    "timestamp": {"type": "string", "name": _ZONED, "version": 1},
    "decimal(12,2)": {"type": "bytes", "name": _DECIMAL, "version": 1, "parameters": _SCALE},
}
_AVRO: dict[str, Any] = {
    "bigint": "long",
    "int": "int",
    "boolean": "boolean",
    "double": "double",
    "string": "string",
    "timestamp": {"type": "string", "connect.name": _ZONED},
    "decimal(12,2)": {"type": "bytes", "connect.name": _DECIMAL, "precision": 12, "scale": 2}
    | {"logicalType": "decimal", "connect.parameters": _SCALE},
}
_SOURCE: dict[str, Any] = {
    "version": "string", "connector": "string", "name": "string", "ts_ms": "long",
    "snapshot": "string", "db": "string", "sequence": "string", "ts_us": "long",
    "schema": "string", "table": "string", "txId": "long", "lsn": "long",
}  # fmt: skip
_ARROW: dict[str, pa.DataType] = {
    "_raw": pa.binary(), "_key": pa.binary(), "_headers": pa.binary(), "_whole": pa.bool_(),
    "_partition": pa.int32(), "_offset": pa.int64(), "_batch": pa.int64(),
    "_timestamp": pa.int64(), "_arrived_at": pa.int64(), "_line": pa.int64(),
}  # fmt: skip
_FIRST, _PER_BATCH, _COUNTED = 2_000, 10_000, 2_000


class Feed(NamedTuple):
    """The records of one format: its table, raw values and keys, Avro schemas by id."""

    table: Table
    raws: list[bytes]
    keys: list[bytes] | None = None
    schemas: dict[str, str] | None = None
    file: str | None = None


def main() -> None:
    """Measures here, or here and in another checkout by turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("formats", nargs="*")
    given = parser.parse_args()
    names = given.formats or list(FEEDS)
    if given.child:
        print(json.dumps({name: _measured(FEEDS[name](given.records)) for name in names}))
        return
    places = [Path.cwd(), *([given.against] if given.against else [])]
    best: dict[Path, dict[str, list[float]]] = {place: {} for place in places}
    for _ in range(given.rounds):
        for place in places:
            for name, found in _child(place, given.records, names).items():
                held = best[place].setdefault(name, found)
                best[place][name] = [min(pair) for pair in zip(held, found, strict=True)]
    for name in names:
        here, *others = [best[place][name] for place in places]
        text = f"{name:18} {_show_figures(here)}"
        for other in others:
            text += f"   against {_show_figures(other)}   ratio {here[0] / other[0]:.2f}"
        print(text)


def _show_figures(figures: list[float]) -> str:
    taken, calls, parsed = figures
    text = f"{taken:7.2f} us {calls:7.1f} calls"
    return f"{text} {taken / parsed:5.2f} times the parse" if parsed else text


def _child(place: Path, records: int, names: list[str]) -> dict[str, list[float]]:
    """What a process measures whose modules are those of a checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child"]
    command += ["--records", str(records), *names]
    env = os.environ | {"PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measured(feed: Feed) -> list[float]:
    """Microseconds and Python calls of a record, and microseconds to parse one; 0 of Avro."""
    batches = _batches(feed)
    look = DiscoveryPlan(
        feed.table, replace(known_columns(feed.table, {}), schemas=feed.schemas or {})
    )
    [shown] = list(discover_batches(look, iter([batches[0].slice(0, _FIRST)])))
    columns = pickle.loads(shown.column("discovery")[0].as_py()).settle(False)[0]
    plan = DecodePlan(feed.table, columns, columns.schema(), False)
    taken = min(_timed(lambda: list(decode_batches(plan, iter(batches)))) for _ in range(3))
    first = batches[0].slice(0, _COUNTED)
    calls = _calls(lambda: list(decode_batches(plan, iter([first]))))
    failed = sum(
        part.num_rows - part.column("_reason").null_count
        for part in decode_batches(plan, iter(batches))
    )
    assert failed == 0, f"{failed} dead letters"
    count, parsed = len(feed.raws), 0.0
    if feed.schemas is None:
        parse = msgspec.json.Decoder().decode
        parsed = min(_timed(lambda: [parse(raw) for raw in feed.raws]) for _ in range(3))
    return [taken * 1e6 / count, calls / first.num_rows, parsed * 1e6 / count]


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _calls(work: Callable[[], object]) -> int:
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    work()
    sys.setprofile(None)
    return count


def _batches(feed: Feed) -> list[pa.RecordBatch]:
    """The records as Spark hands them over."""
    count = len(feed.raws)
    logged = feed.keys is not None
    given: dict[str, Any] = {
        "_raw": feed.raws,
        "_key": feed.keys,
        "_arrived_at": [1_700_000_000_000_000] * count,
        "_whole": [False] * count,
        "_batch": [1] * count,
        "_arrival": [f"{at:020d}" for at in range(count)],
        "_feed": ["orders"] * count,
        "_file": [feed.file] * count,
    }
    if logged:
        beside = {"_topic": "shop.orders", "_partition": 0, "_timestamp": 1_700_000_000_000_000}
        given |= {name: [value] * count for name, value in beside.items()}
        given["_offset"] = list(range(count))
    names = list(dict.fromkeys((*READ, *CARRIED, "_position")))
    nothing = [None] * count
    arrays = [pa.array(given.get(n) or nothing, _ARROW.get(n, pa.string())) for n in names]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, names=names).to_batches(_PER_BATCH)
    return batches


def _rows(count: int) -> Iterator[Row]:
    for at in range(count):
        yield {
            "id": at,
            "name": f"customer {at % 977}",
            "quantity": at % 40,
            "total": Decimal(at % 90_000) / 100,
            "updated_at": f"2024-05-{at % 28 + 1:02}T12:{at % 60:02}:30.123456Z",
            "active": at % 3 == 0,
            "price": at % 1_000 / 8,
        }


def _octets(value: Decimal) -> bytes:
    cents = int(value * 100)
    return cents.to_bytes(cents.bit_length() // 8 + 1, "big", signed=True)


def _events(count: int, packed: Callable[[Decimal], object]) -> Iterator[Row]:
    for at, row in enumerate(_rows(count)):
        row["total"] = packed(row["total"])
        op = "cuudc"[at % 5] if at % 2 else "c"
        source = {
            "version": "3.0", "connector": "postgresql", "name": "shop",
            "ts_ms": 1_700_000_000_000 + at, "snapshot": "false", "db": "shop",
            "sequence": f'["{1000 + at}","{1001 + at}"]', "ts_us": (1_700_000_000_000 + at) * 1000,
            "schema": "public", "table": "orders", "txId": at, "lsn": 1001 + at,
        }  # fmt: skip
        before = None if op != "d" else {name: None for name in row} | {"id": row["id"]}
        after = None if op == "d" else row
        yield {"before": before, "after": after, "source": source, "op": op, "ts_ms": at}


def _text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=float).encode()


def _packed(value: Decimal) -> str:
    return base64.b64encode(_octets(value)).decode()


def _table(source: Row, **options: object) -> Table:
    given = {"table": "orders", "keys": ["id"], "columns": dict(_COLUMNS)} | options
    return Table.model_validate(given | {"source": source})


def _kafka(format: str, **more: object) -> Row:
    kafka = {"topic": "shop.orders", "bootstrap_servers": "localhost:9092"}
    return {"format": format, "kafka": kafka, **more}


def _keys(count: int) -> list[bytes]:
    return [_text({"id": at}) for at in range(count)]


def _debezium(count: int) -> Feed:
    source = _kafka("debezium", decimal_handling_mode="precise")
    raws = [_text(event) for event in _events(count, _packed)]
    return Feed(_table(source), raws, _keys(count))


def _made_events(count: int, is_snapshot: bool) -> Feed:
    """Changes of `benchmarks.events`, of the file beside this one, as lines of a dropped file."""
    spec = importlib.util.spec_from_file_location("events", Path(__file__).with_name("events.py"))
    assert spec is not None
    assert spec.loader is not None
    events: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(events)
    work = events.Workload(rows=count, changes=count)
    batches = events.batches(work)
    changes = events.snapshot(work) if is_snapshot else [next(batches), next(batches)][1]
    columns = {column.name: column.type for column in events.columns(work)}
    texts = events.lines(work, changes).to_list()
    source = {"format": "debezium", "path": "orders"}
    return Feed(_table(source, columns=columns), [text.encode() for text in texts])


def _in_order(count: int) -> Feed:
    return _made_events(count, True)


def _disorder(count: int) -> Feed:
    return _made_events(count, False)


def _with_blocks(count: int) -> Feed:
    source = _kafka("debezium", decimal_handling_mode="precise")
    fields = [
        {**_CONNECT[type], "optional": True, "field": name} for name, type in _COLUMNS.items()
    ]
    of_source = [{"type": type, "optional": True, "field": name} for name, type in _SOURCE.items()]
    parts = {"before": fields, "after": fields, "source": of_source}
    blocks = [{"type": "struct", "fields": own, "field": name} for name, own in parts.items()]
    schema = {"type": "struct", "fields": blocks, "name": "shop.Envelope"}
    wrapped = ({"schema": schema, "payload": event} for event in _events(count, _packed))
    return Feed(_table(source), list(map(_text, wrapped)), _keys(count))


def _flattened(count: int) -> Feed:
    source = _kafka("debezium", envelope="flattened", decimal_handling_mode="precise")
    raws = [
        _text((event["after"] or event["before"]) | _added(event))
        for event in _events(count, _packed)
    ]
    return Feed(_table(source), raws, _keys(count))


def _added(event: Row) -> Row:
    source = event["source"]
    return {
        "__op": event["op"],
        "__lsn": source["lsn"],
        "__source_ts_ms": source["ts_ms"],
        "__deleted": "true" if event["op"] == "d" else "false",
    }


def _avro(count: int) -> Feed:
    registry = {"url": "http://localhost:8081"}
    source = _kafka("debezium", value_format="avro", schema_registry=registry)
    row = _schema("Value", {n: ["null", _AVRO[type]] for n, type in _COLUMNS.items()})
    envelope = {
        "before": ["null", row],
        "after": ["null", "Value"],
        "source": _schema("Source", {n: ["null", type] for n, type in _SOURCE.items()}),
        "op": "string",
        "ts_ms": ["null", "long"],
    }
    schemas = [_schema("Envelope", envelope), _schema("Key", {"id": "long"})]
    value, key = (_writer(id, schema) for id, schema in enumerate(schemas, 1))
    raws = [value(event) for event in _events(count, _octets)]
    texts = {str(id): json.dumps(one) for id, one in enumerate(schemas, 1)}
    return Feed(_table(source), raws, [key({"id": at}) for at in range(count)], texts)


def _schema(name: str, fields: Row) -> Row:
    told = [{"name": field, "type": type} for field, type in fields.items()]
    return {"type": "record", "name": name, "fields": told}


def _bare(schema: object) -> object:
    """The schema without logical types, whose values fastavro takes as they are encoded."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _bare(value) for name, value in schema.items() if name != "logicalType"}
    return schema


def _writer(id: int, schema: Row) -> Callable[[object], bytes]:
    bare: Any = _bare(schema)
    parsed = fastavro.parse_schema(bare)

    def write(value: object) -> bytes:
        out = io.BytesIO(b"\0" + id.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    return write


def _ydb(count: int) -> Feed:
    raws = [
        _text({"key": [row.pop("id")], "update": row, "ts": [1_700_000_000_000 + at, at]})
        for at, row in enumerate(_rows(count))
    ]
    return Feed(_table(_kafka("ydb")), raws, _keys(count))


def _bigquery(count: int) -> Feed:
    raws = [
        _text(row | {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": f"{at:X}"})
        for at, row in enumerate(_rows(count))
    ]
    return Feed(_table({"format": "bigquery", "path": "orders"}), raws)


def _json_rows(count: int) -> Feed:
    table = _table({"format": "rows", "path": "orders"}, sequence_by="updated_at")
    return Feed(table, list(map(_text, _rows(count))))


def _csv_rows(count: int) -> Feed:
    source = {"format": "rows", "path": "orders", "file_format": "csv"}
    texts = ({n: str(v).lower() for n, v in row.items()} for row in _rows(count))
    upper = (row | {"updated_at": row["updated_at"].upper()} for row in texts)
    return Feed(_table(source, sequence_by="updated_at"), list(map(_text, upper)))


def _parquet_rows(count: int) -> Feed:
    source = {"format": "rows", "path": "orders", "file_format": "parquet"}
    return Feed(_table(source, sequence_by="updated_at"), list(map(_text, _rows(count))))


def _snapshot(count: int) -> Feed:
    table = _table({"format": "snapshot", "path": "orders", "mode": "full"})
    return Feed(table, list(map(_text, _rows(count))), file="/l/orders/2024-05-01/a.jsonl")


FEEDS: dict[str, Callable[[int], Feed]] = {
    "debezium": _debezium,
    "in order": _in_order,
    "disorder": _disorder,
    "debezium blocks": _with_blocks,
    "flattened": _flattened,
    "avro": _avro,
    "rows json": _json_rows,
    "rows csv": _csv_rows,
    "rows parquet": _parquet_rows,
    "ydb": _ydb,
    "bigquery": _bigquery,
    "snapshot files": _snapshot,
}


if __name__ == "__main__":
    main()
