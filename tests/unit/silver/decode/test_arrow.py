"""What a Spark task runs, without Spark: slices, dead letters, what goes along."""

import json
import pickle
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode import arrow
from silver.decode.arrow import (
    CARRIED,
    MOST_BYTES,
    MOST_ROWS,
    READ,
    DecodePlan,
    DiscoveryPlan,
    decode_batches,
    discover_batches,
)
from silver.decode.change import Change
from silver.decode.columns import Columns, DecodedColumn, known_columns
from silver.decode.debezium.change_columns import ChangeColumns
from silver.decode.debezium.events.log_follower import segments_of
from silver.decode.debezium.slices import SliceReader
from silver.decode.formats import Protocol
from silver.decode.slices import ReadPart, Slice
from tests.helpers.avro import envelope_schema, packed, registered
from tests.helpers.builders import table

TYPES = {
    "_raw": pa.binary(),
    "_key": pa.binary(),
    "_headers": pa.binary(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": pa.int64(),
    "_arrived_at": pa.int64(),
    "_whole": pa.bool_(),
    "_batch": pa.int64(),
    "_line": pa.int64(),
}
EVENTS = table("debezium", ["id"], columns={"id": "int", "name": "string"})


def event(id: object, **values: object) -> bytes:
    source = {"connector": "postgresql", "name": "s", "lsn": 1, "ts_ms": 1}
    row = {"id": id} | values
    return json.dumps({"op": "c", "before": None, "after": row, "source": source}).encode()


def batch(raws: Sequence[bytes | None]) -> pa.RecordBatch:
    """Records as Spark hands them over."""
    given: dict[str, Sequence[Any]] = {
        "_raw": raws,
        "_arrived_at": [0] * len(raws),
        "_whole": [False] * len(raws),
        "_arrival": [f"{at:08X}" for at in range(len(raws))],
        "_topic": ["t"] * len(raws),
        "_feed": ["f"] * len(raws),
        "_batch": [7] * len(raws),
        "_path": ["file"] * len(raws),
        "_line": [*range(len(raws))],
        "_position": [f"file:{at}" for at in range(len(raws))],
    }
    names = dict.fromkeys((*READ, *CARRIED, "_position"))
    nothing = [None] * len(raws)
    arrays = [pa.array(given.get(n, nothing), TYPES.get(n, pa.string())) for n in names]
    return pa.RecordBatch.from_arrays(arrays, names=[*names])


def plan(of: Table, keeps_raw: bool = False) -> DecodePlan:
    columns = known_columns(of, {})
    return DecodePlan(of, columns, columns.schema(), keeps_raw)


def decoded(plan: DecodePlan, raws: Sequence[bytes | None]) -> list[dict[str, Any]]:
    found = decode_batches(pickle.loads(pickle.dumps(plan)), iter([batch(raws)]))
    return [row for part in found for row in part.to_pylist()]


def test_a_batch_of_changes_has_a_row_per_record_in_order() -> None:
    rows = decoded(plan(EVENTS), [event(1, name="a"), None, b"no JSON", event(2, name=None)])
    assert [(r["id"], r["name"], r["_operation"], r["_reason"]) for r in rows] == [
        (1, "a", "upsert", None),
        (None, None, "none", None),
        (None, None, None, "not_json"),
        (2, None, "upsert", None),
    ]
    nowhere = (None, None)
    places = [(row["_path"], row["_line"]) for row in rows]
    assert places == [nowhere, nowhere, ("file", 2), nowhere]
    assert {(r["_topic"], r["_feed"], r["_batch"]) for r in rows} == {("t", "f", 7)}


FRAMED = b"\0\0\0\0\xc8"


@pytest.mark.parametrize(
    "framed",
    [
        FRAMED + event(1, name="a"),
        b"\0\0\0\0\0\0\0\0\x05" + event(1, name="a"),
        json.dumps(event(1, name="a").decode()).encode(),
        FRAMED + event(1, name="a") + b"\n",
        b" " + json.dumps(event(1, name="a").decode()).encode(),
    ],
    ids=["id of 4 bytes", "id of 8 bytes", "json text", "space behind", "space in front"],
)
def test_a_value_is_read_without_its_serializer_s_frame(framed: bytes) -> None:
    [found] = decoded(plan(EVENTS), [framed])
    assert (found["id"], found["name"], found["_reason"]) == (1, "a", None)

    discovery = DiscoveryPlan(table("debezium", ["id"]), known_columns(EVENTS, {}))
    [shown] = discover_batches(discovery, iter([batch([framed])]))
    columns, _ = pickle.loads(shown.column("discovery")[0].as_py()).settle()
    assert columns.names == ["id", "name"]


def test_a_key_is_read_without_its_serializer_s_frame() -> None:
    deleted = json.loads(event(1)) | {"op": "d", "after": None}
    given = batch([json.dumps(deleted).encode()])
    at = given.schema.get_field_index("_key")
    given = given.set_column(at, given.schema.field(at), pa.array([FRAMED + b'{"id":7}']))
    [found] = [
        row for part in decode_batches(plan(EVENTS), iter([given])) for row in part.to_pylist()
    ]
    assert (found["id"], found["_operation"]) == (7, "delete")


def test_frames_are_taken_off_json_that_stands_beside_avro() -> None:
    kafka = {"topic": "t", "bootstrap_servers": "k:9092"}
    registry = {"value_format": "avro", "schema_registry": {"url": "http://r:8081"}}
    sources = [
        {"format": "debezium", "path": "load"},
        {"format": "debezium", "kafka": kafka} | registry,
    ]
    types = {"id": "int", "name": "string"}
    both = {"table": "t", "keys": ["id"], "sources": sources, "columns": types}
    of = Table.model_validate(both)
    schema = envelope_schema([{"name": "id", "type": "long"}, {"name": "name", "type": "string"}])
    columns = replace(known_columns(of, {}), schemas=registered(schema))
    source = {"version": "3", "connector": "postgresql", "name": "s", "lsn": 1, "ts_ms": 1}
    source |= {"db": "d", "schema": "p", "table": "t"}
    parts = {"op": "c", "source": source, "after": {"id": 3, "name": "c"}}
    avro = packed(schema, 1, parts)
    raws = [json.dumps(event(1, name="a").decode()).encode(), FRAMED + event(2, name="b"), avro]

    found = decoded(DecodePlan(of, columns, columns.schema(), False), raws)

    assert [(row["id"], row["name"], row["_reason"]) for row in found] == [
        (1, "a", None),
        (2, "b", None),
        (3, "c", None),
    ]


@pytest.mark.parametrize("broken", [FRAMED + b"{1, 2", FRAMED, b'"{1', b'"{1}"', b'"text"', b"\0"])
def test_what_only_looks_like_a_frame_is_a_dead_letter(broken: bytes) -> None:
    assert [row["_reason"] for row in decoded(plan(EVENTS), [broken])] == ["not_json"]


def test_a_raw_record_goes_along_with_a_dead_letter_alone() -> None:
    records = [event(1), b"\xff no JSON", None]
    assert [r["_raw"] for r in decoded(plan(EVENTS), records)] == [None, records[1], None]
    kept = decoded(plan(EVENTS, keeps_raw=True), records)
    assert [r["_raw"] for r in kept] == records


def test_large_records_are_worked_on_in_slices() -> None:
    """So that a slice, whatever the size of the batch, is all that is held as Python objects."""
    records = [event(at, name="x" * 1_000_000) for at in range(100)]
    given = batch(records)
    del records
    parts = decode_batches(plan(EVENTS), iter([given]))
    next(parts)
    tracemalloc.start()
    found = [part.num_rows for part in parts]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(found) * 1_000_000 <= MOST_BYTES
    assert most < 6 * MOST_BYTES


def test_many_small_records_are_worked_on_in_slices() -> None:
    given = batch([event(1)] * (2 * MOST_ROWS + 1))
    parts = [part.num_rows for part in decode_batches(plan(EVENTS), iter([given]))]
    assert parts == [MOST_ROWS, MOST_ROWS, 1]


def test_a_record_larger_than_a_slice_is_one() -> None:
    records = [event(1), event(2, name="x" * MOST_BYTES), event(3)]
    parts = [part.num_rows for part in decode_batches(plan(EVENTS), iter([batch(records)]))]
    assert parts == [1, 1, 1]


class Scripted:
    """A decoder that gives a value as it stands, or fails: what no decoder is meant to do."""

    def __init__(self, of: Table, columns: Columns) -> None:
        self.columns = ChangeColumns(of, columns)

    def read(self, records: Slice) -> ReadPart:
        values = [json.loads(raw) for raw in records.column("_raw")]
        if "fails" in values:
            raise LookupError("nobody foresaw this")
        changes = [Change("upsert", [v["id"], v["name"]], message=v.get("message")) for v in values]
        return ReadPart([*range(len(values))], self.columns.build(changes))


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(arrow, "PROTOCOLS", {"debezium": Protocol(Scripted, Scripted)})
    yield


@pytest.mark.usefixtures("scripted")
def test_a_record_on_which_its_decoder_fails_is_a_dead_letter() -> None:
    found = decoded(plan(EVENTS), [b'{"id": 1, "name": "a"}', b'"fails"'])
    assert [(r["id"], r["_reason"]) for r in found] == [(1, None), (None, "bad_value")]
    assert found[1]["_message"] == "the decoder failed with LookupError: nobody foresaw this"
    assert found[1]["_raw"] == b'"fails"'


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"id": 1 << 40, "name": "b"}, f"column id: found '{1 << 40}', expected int"),
        ({"id": 2, "name": 5}, "column name: found '5', expected string"),
        ({"id": 2, "name": "\ud800"}, r"column name: found '\ud800', expected string"),
    ],
)
def test_a_value_that_its_column_cannot_hold_costs_its_record_alone(
    given: dict[str, Any], shown: str
) -> None:
    sound = {"id": 1, "name": "a"}
    found = decoded(plan(EVENTS), [json.dumps(one).encode() for one in (sound, given, sound)])
    assert [r["_operation"] for r in found] == ["upsert", None, "upsert"]
    assert [r["id"] for r in found] == [1, None if given["id"] > 9 else 2, 1]
    assert (found[1]["_reason"], found[1]["_message"]) == ("bad_value", shown)


LINES = {
    "bigquery": '{"id": 1, "_CHANGE_TYPE": "UPSERT", "name": %s, "tags": [%s]}',
    "ydb": '{"key": [1], "update": {"name": %s, "tags": [%s]}, "ts": [1, 1]}',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("text", [r"\ud800", r"a\udc00b", r"\udc00\ud800"])
@pytest.mark.parametrize("nested", [False, True])
def test_half_a_surrogate_pair_is_refused_and_a_whole_one_kept(
    line: str, text: str, nested: bool
) -> None:
    format = next(name for name, known in LINES.items() if known == line)
    columns = {"id": "int", "name": "string", "tags": "array<string>"}
    half, whole = f'"{text}"', r'"\ud83d\ude00"'
    lines = [line % ((whole, half) if nested else (half, whole)), line % (whole, whole)]

    found = decoded(plan(table(format, ["id"], columns=columns)), [one.encode() for one in lines])

    assert [row["_reason"] for row in found] == ["bad_value", None]
    assert found[0]["tags" if nested else "name"] is None
    assert (found[1]["name"], found[1]["tags"]) == ("\N{GRINNING FACE}", ["\N{GRINNING FACE}"])


def test_slices_are_not_read_by_columns_where_that_was_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def read(_: SliceReader, records: Slice) -> None:
        asked.append(records.part.num_rows)

    monkeypatch.setattr(SliceReader, "read", read)
    parts = decode_batches(plan(EVENTS), iter([batch([event(1)])] * 5))
    assert sum(part.num_rows for part in parts) == 5
    assert asked == [1, 1]


@pytest.mark.usefixtures("scripted")
def test_a_message_is_valid_text() -> None:
    (found,) = decoded(
        plan(EVENTS), [json.dumps({"id": 1, "name": "", "message": "\udfff"}).encode()]
    )
    assert found["_message"] == "?"


def test_a_discovery_comes_back_with_what_it_has_seen() -> None:
    given = plan(table("debezium", ["id"]))
    look = pickle.loads(pickle.dumps(DiscoveryPlan(given.table, given.columns)))
    (part,) = discover_batches(look, iter([batch([event(1, n=5)]), batch([event(2, n=None)])]))
    (found,) = part.to_pylist()
    columns, (shape, *_) = pickle.loads(found["discovery"]).settle()
    assert found["records"] == 2
    assert [(c.name, c.type) for c in columns.columns] == [
        ("id", T.LongType()),
        ("n", T.LongType()),
    ]
    assert shape.first_position == "file:0"


def test_a_task_without_records_finds_nothing() -> None:
    given = plan(EVENTS)
    assert list(decode_batches(given, iter([]))) == []
    (part,) = discover_batches(DiscoveryPlan(given.table, given.columns), iter([]))
    assert part.to_pylist()[0]["records"] == 0


def test_a_type_that_arrow_does_not_carry_leaves_a_task_as_text() -> None:
    from silver.decode.types import carrier_type

    variant = T.ArrayType(T.VariantType())
    assert carrier_type(variant) == T.StringType()
    assert carrier_type(T.ArrayType(T.LongType())) == T.ArrayType(T.LongType())
    assert DecodedColumn("v", variant).type == variant


def test_the_last_record_of_a_task_tells_how_far_the_source_s_log_has_come() -> None:
    def moved(lsn: int, commit: int, time: int) -> bytes:
        sequence = f'["{commit}","{lsn}"]'
        source = {"connector": "postgresql", "lsn": lsn, "sequence": sequence, "ts_ms": time}
        return json.dumps({"op": "c", "after": {"id": lsn}, "source": source}).encode()

    sent = [batch([moved(70, 50, 1), moved(75, 72, 2)]), batch([b"no JSON", moved(9, 7, 3)])]

    parts = list(decode_batches(plan(EVENTS), iter(sent)))

    told = [text for part in parts for text in part.column("_source_log").to_pylist()]
    assert told[:-1] == [None, None, None]
    found = segments_of(told[-1:])
    assert [(s.first, s.last, int(s.position, 16)) for s in found] == [
        (f"{0:08X}", f"{1:08X}", 75),
        (f"{1:08X}", f"{1:08X}", 9),
    ]
