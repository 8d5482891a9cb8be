"""Flattened events: what ExtractNewRecordState leaves of an envelope, in its delete modes."""

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import Columns, known_columns
from silver.decode.debezium.decoder import DebeziumDecoder
from silver.decode.debezium.events.opening import FULL, REWRITTEN, waits_for_form
from silver.decode.wrapped import value_inside
from tests.helpers.debezium_records import decoded, discovered, event, plain, table

Given = dict[str, Any]


def flat(columns: Given | None = None, **source: object) -> Table:
    return table(columns=columns or {"id": "bigint", "name": "string"}, source=source)


def sent(offset: int | None, key: object, value: object, headers: object = None) -> Record:
    """A record of a Kafka topic."""
    return Record(
        raw=None if value is None else json.dumps(value).encode(),
        key=None if key is None else json.dumps(key).encode(),
        headers=None if headers is None else json.dumps(headers).encode(),
        topic="shop.t",
        partition=0,
        offset=offset,
        timestamp=9_000_000,
        arrived_at=10_000_000,
        arrival=f"{offset or 0:08X}",
    )


def told(of: Table, records: list[Record], *names: str) -> list[Any]:
    found = [tuple(row[name] for name in names) for row in decoded(of, records)]
    return [one[0] for one in found] if len(names) == 1 else found


def test_a_row_without_an_envelope_is_an_upsert() -> None:
    records = [sent(1, {"id": 1}, {"id": 1, "name": "a"})]

    [found] = decoded(flat(), records)

    assert (found["id"], found["name"], found["_operation"]) == (1, "a", "upsert")
    assert found["_reason"] is None


def test_members_of_the_envelope_are_no_columns() -> None:
    row = {"id": 1, "name": "a", "__op": "c", "__deleted": "false", "__lsn": 7, "__table": "t"}

    columns, shapes = discovered(flat(), [sent(1, None, row)])

    assert columns.names == ["id", "name"]
    assert [set(shape.fields) for shape in shapes] == [{"id", "name"}]
    assert columns.envelope == REWRITTEN


@pytest.mark.parametrize("flag", ["true", True, "True", "t", 1])
def test_a_rewritten_delete_is_one(flag: object) -> None:
    gone = sent(1, {"id": 1}, {"id": 1, "name": None, "__deleted": flag})
    keyless = sent(2, None, {"id": 2, "name": None, "__deleted": flag})

    assert told(flat(), [gone, keyless], "_operation", "id") == [("delete", 1), ("delete", 2)]


@pytest.mark.parametrize(
    "key",
    [
        {"id": 5},
        5,
        {"schema": {"type": "int64"}, "payload": 5},
        {"schema": {}, "payload": {"id": 5}},
    ],
)
def test_a_tombstone_deletes_by_its_key(key: object) -> None:
    records = [sent(1, {"id": 1}, {"id": 1, "name": "a"}), sent(2, key, None)]

    assert told(flat(), records, "_operation", "id") == [("upsert", 1), ("delete", 5)]


def test_a_tombstone_without_a_key_is_a_dead_letter() -> None:
    records = [sent(1, {"id": 1}, {"id": 1}), sent(2, None, None)]

    assert told(flat(), records, "_reason") == [None, "no_key"]


def test_tombstones_stand_where_their_offset_says() -> None:
    """Only the topic orders them: the rows are ordered by it, too."""
    row = {"id": 1, "name": "a", "__lsn": 400, "__op": "u"}
    records = [sent(7, {"id": 1}, row), sent(8, {"id": 1}, None), sent(9, {"id": 1}, row)]

    sequences = told(flat(), records, "_sequence")

    assert sequences == sorted(sequences)
    assert len(set(sequences)) == 3


def test_rewritten_deletes_stand_where_their_position_says() -> None:
    """A record that is sent again has a new offset and its old position."""
    rows = [{"id": 1, "__deleted": "false", "__lsn": lsn} for lsn in (100, 300, 200)]
    records = [sent(at, {"id": 1}, row) for at, row in enumerate(rows)]

    first, last, again = told(flat(), records, "_sequence")

    assert first < again < last


def test_a_tombstone_behind_a_rewritten_delete_changes_nothing() -> None:
    rows = [
        sent(1, {"id": 1}, {"id": 1, "__deleted": "true", "__lsn": 100}),
        sent(2, {"id": 1}, None),
        sent(3, {"id": 1}, {"id": 1, "__deleted": "false", "__lsn": 200}),
    ]

    assert told(flat(), rows, "_operation") == ["delete", "none", "upsert"]
    assert told(flat(envelope="flattened"), rows, "_operation") == ["delete", "none", "upsert"]


def test_lines_of_a_file_are_ordered_by_position_then_by_time() -> None:
    by_position = [{"id": 1, "__op": "u", "__lsn": n} for n in (9, 8)]
    by_time = [{"id": 1, "__op": "u", "__source_ts_ms": n} for n in (9, 8)]
    by_arrival = [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]

    later, earlier = told(flat(), plain(*by_position), "_sequence")
    assert later > earlier
    later, earlier = told(flat(), plain(*by_time), "_sequence")
    assert later > earlier
    first, second = told(flat(), plain(*by_arrival), "_sequence")
    assert first == second


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"__source_ts_ms": 5}, 5_000),
        ({"__ts_ms": 6}, 6_000),
        ({"__source_lsn": 1, "__ts_ms": 6}, 6_000),
        ({"__source_ts_us": 7, "__source_ts_ms": 5}, 7),
        ({}, 9_000_000),
    ],
)
def test_the_time_is_that_of_the_source_then_of_the_record(members: Given, expected: int) -> None:
    row = {"id": 1, "name": "a"} | members
    assert told(flat(), [sent(1, None, row)], "_source_time") == [expected]


def test_transactions_are_told() -> None:
    row = {"id": 1, "__transaction_id": "7:90", "__transaction_total_order": 3}

    assert told(flat(), [sent(1, None, row)], "_transaction", "_transaction_order") == [("7", 3)]


@pytest.mark.parametrize(
    "headers",
    [
        {"__op": "d", "__source_ts_ms": "5"},
        {"__op": '"d"', "__source_ts_ms": "5"},
        {"__op": '{"schema":{"type":"string"},"payload":"d"}', "__source_ts_ms": "5"},
        [{"key": "__op", "value": "d"}, {"key": "__source_ts_ms", "value": 5}],
        [{"__op": "d"}, {"__source_ts_ms": 5}],
        [["__op", "d"], ["__source_ts_ms", "5"]],
        ["__op", "d", "__source_ts_ms", "5"],
    ],
)
def test_members_may_be_headers(headers: object) -> None:
    records = [
        sent(1, {"id": 1}, {"id": 1, "name": "a"}, headers),
        sent(2, {"id": 1}, None, headers),
    ]

    found = told(flat(), records, "_operation", "_source_time")

    assert found == [("delete", 5_000), ("delete", 5_000)]


def test_values_are_read_by_the_declared_types() -> None:
    columns = {
        "id": "int",
        "made": "timestamp_ntz",
        "day": "date",
        "price": "decimal(10,2)",
        "data": "binary",
    }
    row = {"id": 1, "made": 1760000000123456, "day": 20370, "price": "BBo=", "data": "/wA="}

    [found] = decoded(flat(columns), [sent(1, None, row | {"__op": "c"})])

    assert str(found["made"]) == "2025-10-09 08:53:20.123456"
    assert found["day"] == date(2025, 10, 9)
    assert (found["price"], found["data"]) == (Decimal("10.50"), b"\xff\x00")


def test_values_are_read_by_the_schema_block() -> None:
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
        {"field": "__deleted", "type": "string"},
    ]
    block = {"type": "struct", "fields": fields, "name": "shop.t.Value"}
    row = {"id": 1, "day": 20370, "price": "BBo=", "__deleted": "false"}
    records = [sent(1, None, {"schema": block, "payload": row}), sent(2, {"id": 1}, None)]

    columns, [shape] = discovered(flat({"id": "int"}), records)

    assert {c.name: c.type for c in columns.columns} == {
        "id": T.IntegerType(),
        "day": T.DateType(),
        "price": T.DecimalType(10, 2),
    }
    assert shape.fields == {"id": "int", "day": "date", "price": "decimal(10,2)"}
    assert told(flat({"id": "int"}), records, "_operation", "price") == [
        ("upsert", Decimal("10.50")),
        ("none", None),
    ]


def test_a_value_that_the_source_left_out_is_absent() -> None:
    row = {"id": 1, "name": "__debezium_unavailable_value"}

    assert told(flat(), [sent(1, None, row | {"__op": "u"})], "_absent", "name") == [
        (["name"], None)
    ]
    assert told(flat(), [sent(1, None, row)], "_absent") == [["name"]]
    assert told(flat(), [sent(1, None, row | {"__op": "r"})], "_absent", "name") == [
        (None, "__debezium_unavailable_value")
    ]


def test_documents_are_known_by_their_id() -> None:
    records = [sent(1, None, {"_id": "64", "name": "a", "__deleted": False})]

    assert told(flat({"id": "string", "name": "string"}), records, "id", "_reason") == [
        ("64", None)
    ]


def test_a_field_of_a_document_called_id_is_not_its_key() -> None:
    of = flat({"id": "string", "name": "string"})
    records = [
        sent(1, {"id": "64"}, {"_id": "64", "id": 7, "name": "a"}),
        sent(2, {"id": "64"}, {"_id": "64", "__op": "d", "__deleted": True}),
    ]

    assert told(of, records, "id", "_operation") == [("64", "upsert"), ("64", "delete")]
    assert told(of, records[:1], "id_source") == [7]


def test_a_column_called_id_beside_one_called_underscore_id_is_the_key() -> None:
    records = [sent(1, {"id": 7}, {"_id": 64, "id": 7, "name": "a"})]

    assert told(flat(), records, "id") == [7]


def test_the_key_of_a_row_may_lie_in_the_records_key_alone() -> None:
    records = [sent(1, {"id": 1}, {"name": "a", "ts_ms": 5}), sent(2, {"id": 1}, None)]

    assert told(flat(), records, "id", "_operation") == [(1, "upsert"), (1, "delete")]


def test_members_of_the_transform_without_a_prefix_are_columns() -> None:
    row = {"id": 1, "name": "a", "op": "c", "ts_ms": 5, "__deleted": "false"}
    records = [sent(1, {"id": 1}, row), sent(2, {"id": 1}, row | {"op": "d", "__deleted": "true"})]

    assert told(flat(), records, "_operation", "_reason") == [("upsert", None), ("delete", None)]
    assert told(flat(), records[:1], "op", "ts_ms") == [("c", 5)]


@pytest.mark.parametrize("form", ["auto", "full"])
def test_a_row_that_shows_no_form_is_no_heartbeat(form: str) -> None:
    of = flat(envelope=form)

    assert told(of, [sent(1, None, {"name": "a", "ts_ms": 5})], "_reason") == ["unknown_operation"]
    assert told(of, [sent(1, None, {"ts_ms": 5})], "_operation") == ["none"]


def test_columns_may_have_names_that_envelopes_have() -> None:
    of = flat({"id": "bigint", "source": "string", "status": "string", "ts_ms": "bigint"})
    records = [sent(1, None, {"id": 1, "source": "web", "status": "END", "ts_ms": 5, "__op": "c"})]
    plain_row = [sent(1, None, {"id": 1, "source": "web", "status": "new", "ts_ms": 5})]

    assert told(of, plain_row, "source", "status", "ts_ms") == [("web", "new", 5)]
    assert told(table(columns=of.columns, source={"envelope": "flattened"}), records, "status") == [
        "END"
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"id": 0, "database": "d", "table": "t", "type": "INSERT", "data": [{"id": "1"}]},
        {"id": 1, "specversion": "1.0", "type": "x", "source": "/d", "data": {"after": {"id": 1}}},
    ],
    ids=["canal", "cloudevents"],
)
def test_an_envelope_of_another_program_is_no_row_with_its_id(value: Given) -> None:
    [found] = decoded(table(), [sent(1, None, value)])

    assert found["_reason"] in ("unknown_operation", "not_json")
    assert found["id"] is None


def test_tombstones_of_full_envelopes_say_nothing() -> None:
    records = [
        sent(1, {"id": 1}, event("c", after={"id": 1, "name": "a"})),
        sent(2, {"id": 1}, event("d", before={"id": 1})),
        sent(3, {"id": 1}, None),
    ]

    assert told(flat(), records, "_operation") == ["upsert", "delete", "none"]
    assert discovered(flat(), records)[0].envelope == "full"


def test_a_feed_has_the_form_of_its_first_event() -> None:
    full, row = event("c", after={"id": 1, "name": "a"}), {"id": 2, "name": "b", "extra": 1}
    first_full = [sent(1, None, full), sent(2, None, row)]
    first_flat = [sent(1, None, row), sent(2, None, full)]

    assert told(flat(), first_full, "_reason") == [None, "unknown_operation"]
    assert told(flat(), first_flat, "_reason") == [None, "unknown_operation"]
    assert discovered(flat(), first_full)[0].names == ["id", "name"]


@pytest.mark.parametrize(
    "line", [{"id": 1}, {"op": "ping"}, {"op": "m", "message": {}}, {"ID": 7}, {"note": "no event"}]
)
def test_an_object_that_is_no_event_does_not_decide_the_form(line: Given) -> None:
    full, row = event("c", after={"id": 1, "name": "a"}), {"id": 2, "name": "b"}
    gone = sent(2, {"id": 2}, None)

    found = told(flat(), [sent(0, None, line), sent(1, {"id": 1}, full), gone], "_operation")
    assert found == [None if found[0] is None else "none", "upsert", "none"]
    found = told(flat(), [sent(0, None, line), sent(1, {"id": 2}, row), gone], "_operation", "id")
    assert found[1:] == [("upsert", 2), ("delete", 2)]


@pytest.mark.parametrize("count", [2, 40])
def test_a_key_alone_is_no_row_without_its_columns(count: int) -> None:
    keys = plain(*[{"id": at} for at in range(count)])
    for of in (flat(), flat(envelope="flattened")):
        rows = decoded(of, [sent(0, {"id": 1}, {"id": 1, "name": "a"}), *keys])
        assert {row["_reason"] for row in rows[1:]} <= {"unknown_operation", "illegal_change"}
        assert [row["_operation"] for row in rows] == ["upsert"] + [None] * count
    [told_key] = decoded(flat(envelope="flattened"), keys[:1])
    assert "store.kafka.keys" in told_key["_message"]


def test_the_form_can_be_declared() -> None:
    row = [sent(1, {"id": 1}, {"id": 1, "name": "a"}), sent(2, {"id": 1}, None)]

    assert told(flat(envelope="full"), row, "_reason", "_operation") == [
        ("unknown_operation", None),
        (None, "none"),
    ]
    assert told(flat(envelope="flattened"), row[1:], "_operation") == ["delete"]


def test_a_record_that_shows_its_form_first_makes_the_batch_be_looked_at() -> None:
    of = flat()
    known = known_columns(of, {})
    record = sent(1, None, {"id": 1, "name": "a"})

    found = DebeziumDecoder(of, known).decode(record)
    again = DebeziumDecoder(of, discovered(of, [record])[0]).decode(record)

    assert (found.operation, found.mismatched) == ("upsert", True)
    assert (again.operation, again.mismatched) == ("upsert", False)


def test_the_form_that_is_known_counts() -> None:
    of = flat()
    columns = Columns(known_columns(of, {}).columns, envelope="flattened")

    assert DebeziumDecoder(of, columns).decode(sent(1, {"id": 1}, None)).operation == "delete"


NOTIFICATION: Given = {
    "id": "8d6a3c1e-5b7c-4f0e-9f4b-0f1a2b3c4d5e",
    "aggregate_type": "Initial Snapshot",
    "type": "STARTED",
    "additional_data": {"connector_name": "s"},
    "timestamp": 5,
}


def test_a_notification_shows_no_form() -> None:
    older = {name: value for name, value in NOTIFICATION.items() if name != "timestamp"}
    event = {"op": "c", "after": {"id": 1}}
    records = [sent(0, None, NOTIFICATION), sent(1, None, older), sent(2, {"id": 1}, event)]

    assert told(flat(), records, "_operation") == ["none", "none", "upsert"]


def test_a_row_with_more_than_a_notification_has_is_a_row() -> None:
    row = NOTIFICATION | {"id": 1, "name": "a"}

    assert told(flat(), [sent(0, {"id": 1}, row)], "_operation") == ["upsert"]


@pytest.mark.parametrize(
    "marker",
    [
        {"ts_ms": 5},
        {"status": "END", "id": "4:9", "event_count": 1, "data_collections": [], "ts_ms": 5},
        {"source": {}, "ddl": "CREATE", "databaseName": "d", "tableChanges": [], "ts_ms": 4},
        NOTIFICATION,
    ],
)
def test_markers_among_flattened_events_say_nothing(marker: Given) -> None:
    records = [sent(1, None, {"id": 1, "name": "a"}), sent(2, None, marker)]

    assert told(flat(), records, "_operation") == ["upsert", "none"]


GONE, WHOLE_GONE = sent(1, {"id": 1}, None), '{"topic":"t","key":{"id":1},"value":null}'
ROW = sent(2, {"id": 2}, {"id": 2, "name": "a"})


@pytest.mark.parametrize(
    ("records", "waits"),
    [
        ([GONE], True),
        ([GONE, sent(2, None, None)], True),
        ([replace(GONE, raw=value_inside(WHOLE_GONE.encode()))], True),
        ([GONE, ROW], False),
        ([GONE, replace(ROW, raw=b"no JSON")], True),
        ([replace(ROW, raw=b"no JSON"), sent(2, None, {"ts_ms": 5}), GONE], True),
        ([GONE, sent(2, None, {"ts_ms": 5}), ROW], False),
        ([GONE, sent(2, None, event("c", after={"id": 2}))], False),
        ([replace(ROW, raw=b"no JSON")], False),
        ([sent(2, None, None)], False),
        ([], False),
    ],
)
def test_tombstones_alone_wait_for_the_form_of_their_feed(
    records: list[Record], waits: bool
) -> None:
    unknown = known_columns(flat(), {})
    assert waits_for_form(flat(), unknown, records) is waits
    assert not waits_for_form(flat(envelope="flattened"), unknown, records)
    assert not waits_for_form(flat(), replace(unknown, envelope=FULL), records)
    assert not waits_for_form(table(keys=()), unknown, records)
