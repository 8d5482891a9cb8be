"""MongoDB's change events: documents as JSON text, keys named by `_id`, changed fields."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import known_columns
from silver.decode.debezium.decoder import DebeziumDecoder
from silver.decode.debezium.events.documents import id_text, to_plain_json
from silver.decode.values.json_values import NumberText
from tests.helpers.debezium_records import decoded, discovered, from_kafka, plain, table, whole

OID = {"$oid": "64001c996f4de7ff3189d374"}
KEY = '{"$oid": "64001c996f4de7ff3189d374"}'
COLUMNS = {"id": "string", "title": "string", "size": "int"}
Given = dict[str, Any]


def clips(columns: Given | None = None) -> Table:
    return table(columns=columns or COLUMNS)


def event(op: str, after: Given | None, ord: int = 1, **parts: object) -> Given:
    source = {"connector": "mongodb", "name": "m", "ts_ms": 1760000000000, "ord": ord, "db": "d"}
    text = None if after is None else json.dumps(after)
    return {"before": None, "after": text, "source": source, "op": op, "ts_ms": 1} | parts


def sent(value: Given, key: str | None = KEY) -> Record:
    given = {"topic": "m.d.clips", "offset": 1, "value": value}
    [record] = whole(given if key is None else given | {"key": {"id": key}})
    return record


def told(of: Table, records: list[Record], *names: str) -> list[Any]:
    return [tuple(row[name] for name in names) for row in decoded(of, records)]


def test_a_document_is_a_row() -> None:
    records = [
        sent(event("c", {"_id": OID, "title": "one", "size": {"$numberInt": "5"}})),
        sent(event("u", {"_id": OID, "title": "uno"}, 2)),
        sent(event("d", None, 3)),
    ]

    assert told(clips(), records, "_operation", "id", "title", "size", "_absent") == [
        ("upsert", KEY, "one", 5, None),
        ("upsert", KEY, "uno", None, None),
        ("delete", KEY, None, None, None),
    ]
    sequences = [row["_sequence"] for row in decoded(clips(), records)]
    assert sequences == sorted(set(sequences))
    assert [row["_snapshot"] for row in decoded(clips(), records)] == [None] * 3


@pytest.mark.parametrize("sent_at", [1760000005208, 0])
@pytest.mark.parametrize("order", [-1, "-1"])
def test_a_row_read_without_a_position_ranks_below_changes_that_came_meanwhile(
    order: object, sent_at: int
) -> None:
    source = {"connector": "mongodb", "name": "m", "ts_ms": sent_at, "snapshot": "true", "db": "d"}
    read = event("r", {"_id": OID, "title": "old"}) | {"source": source | {"ord": order}}
    changed = event("u", {"_id": OID, "title": "new"})

    found = decoded(clips(), [sent(changed), sent(read)])

    assert [row["_reason"] for row in found] == [None, None]
    assert found[1]["_sequence"] < found[0]["_sequence"]
    assert found[1]["_sequence"] == f"{max(sent_at - 3_600_000, 0):016X}/{0:016X}/{0:016X}"


@pytest.mark.parametrize(
    ("id", "key"),
    [
        (OID, KEY),
        ({"$numberLong": "1004"}, "1004"),
        (7, "7"),
        ("a", '"a"'),
        ({"shop": 1, "nr": {"$numberLong": "2"}}, '{"shop": 1, "nr": {"$numberLong": "2"}}'),
    ],
)
def test_an_id_has_the_text_of_a_records_key(id: object, key: str) -> None:
    value = event("c", {"_id": id, "title": "x"})

    assert told(clips(), [sent(value, None), sent(value, key)], "id") == [(key,), (key,)]
    assert str(id_text(id)) == key


def test_documents_come_plain_wrapped_and_from_kafka() -> None:
    value = event("r", {"_id": OID, "title": "one"})
    block = {"type": "struct", "fields": [{"field": "after", "type": "string"}]}
    given = {"topic": "m", "offset": 1, "key": {"id": KEY}, "value": value}
    forms = [
        *plain(value, {"schema": block, "payload": value}),
        *from_kafka(given),
        *from_kafka(given | {"value": {"schema": block, "payload": value}}),
    ]

    assert told(clips(), forms, "id", "title", "_reason") == [(KEY, "one", None)] * 4


def test_changed_fields_leave_the_others_as_they_were() -> None:
    update = {"updatedFields": '{"title": "uno"}', "removedFields": None}
    removal = {"updatedFields": "{}", "removedFields": ["size"], "truncatedArrays": []}
    records = [sent(event("u", None, updateDescription=one)) for one in (update, removal)]

    assert told(clips(), records, "_operation", "id", "title", "size", "_absent") == [
        ("upsert", KEY, "uno", None, ["size"]),
        ("upsert", KEY, None, None, ["title"]),
    ]


def test_patches_of_an_older_debezium_are_updates() -> None:
    patches = [
        {"$v": 1, "$set": {"title": "uno", "size": {"$numberLong": "3"}}},
        {"$set": {"title": "duo"}, "$unset": {"size": True}},
        {"_id": {"$oid": "64"}, "title": "whole"},
        {"$set": {"address.city": "Ulm"}},
        {"$v": 2, "diff": {"u": {"title": "tre"}}},
    ]
    records = [sent(event("u", None, patch=json.dumps(one))) for one in patches]

    found = told(clips(), records, "_operation", "title", "size", "_absent", "_reason")
    assert found == [
        ("upsert", "uno", 3, None, None),
        ("upsert", "duo", None, None, None),
        ("upsert", "whole", None, None, None),
        (None, None, None, None, "illegal_change"),
        (None, None, None, None, "illegal_change"),
    ]


@pytest.mark.parametrize(
    "update",
    [
        {"updatedFields": '{"address.city": "Ulm"}'},
        {"removedFields": ["address.city"]},
        {"updatedFields": "{}", "truncatedArrays": [{"field": "tags", "size": 1}]},
    ],
)
def test_an_update_of_a_part_of_a_field_is_a_dead_letter(update: Given) -> None:
    [found] = decoded(clips(), [sent(event("u", None, updateDescription=update))])

    assert (found["_reason"], found["id"]) == ("illegal_change", KEY)
    assert "change_streams_update_full" in found["_message"]


def test_a_document_beside_an_update_description_counts() -> None:
    parts = {"updateDescription": {"updatedFields": '{"address.city": "Ulm"}'}}
    record = sent(event("u", {"_id": OID, "title": "uno"}, **parts))

    assert told(clips(), [record], "title", "_absent", "_reason") == [("uno", None, None)]


@pytest.mark.parametrize(
    ("extended", "expected"),
    [
        ({"$numberLong": "9223372036854775807"}, 2**63 - 1),
        ({"$numberDouble": "1.5"}, NumberText("1.5")),
        ({"$numberDouble": "NaN"}, "NaN"),
        ({"$numberDecimal": "1.10"}, NumberText("1.10")),
        ({"$date": 1760000000123}, "2025-10-09T08:53:20.123Z"),
        ({"$timestamp": {"t": 1760000000, "i": 3}}, "2025-10-09T08:53:20Z"),
        ({"$date": {"$numberLong": "1760000000123"}}, "2025-10-09T08:53:20.123Z"),
        ({"$date": "2025-10-09T08:53:20.123Z"}, "2025-10-09T08:53:20.123Z"),
        (OID, KEY),
        ({"$binary": {"base64": "/wA=", "subType": "00"}}, "/wA="),
        ({"$binary": "/wA=", "$type": "00"}, "/wA="),
        (
            {"$binary": {"base64": "EjRWeBI0VngSNFZ4EjRWeA==", "subType": "04"}},
            "12345678-1234-5678-1234-567812345678",
        ),
        (
            {"a": [{"$numberInt": "1"}, {"b": {"$date": 0}}]},
            {"a": [1, {"b": "1970-01-01T00:00:00Z"}]},
        ),
        ({"$regularExpression": {"pattern": "x"}}, {"$regularExpression": {"pattern": "x"}}),
        ({"$undefined": True}, None),
    ],
)
def test_extended_json_becomes_plain(extended: object, expected: object) -> None:
    assert to_plain_json(extended) == expected


def test_values_are_typed_as_declared() -> None:
    columns = {
        "id": "string",
        "price": "decimal(10,2)",
        "at": "timestamp",
        "day": "date",
        "data": "binary",
        "address": "struct<city: string, nr: int>",
        "tags": "array<string>",
        "rest": "variant",
    }
    document = {
        "_id": OID,
        "price": {"$numberDecimal": "10.50"},
        "at": {"$date": 1760000000123},
        "day": {"$date": "2025-10-09T00:00:00Z"},
        "data": {"$binary": {"base64": "/wA=", "subType": "00"}},
        "address": {"city": "Ulm", "nr": {"$numberInt": "7"}},
        "tags": ["a", "b"],
        "rest": {"n": {"$numberLong": "1"}},
    }

    [found] = decoded(clips(columns), [sent(event("c", document))])

    assert found["_reason"] is None
    assert found["price"] == Decimal("10.50")
    assert str(found["at"]) == "2025-10-09 08:53:20.123000"
    assert str(found["day"]) == "2025-10-09"
    assert (found["data"], found["tags"]) == (b"\xff\x00", ["a", "b"])
    assert (found["address"], found["rest"]) == ({"city": "Ulm", "nr": 7}, '{"n":1}')


def test_columns_are_found_in_documents() -> None:
    documents = [
        {"_id": OID, "title": "a"},
        {"_id": OID, "n": 5, "sub": {"x": 1}},
        {"_id": 1, "id": 7},
    ]
    records = [sent(event("c", one)) for one in documents]

    columns, shapes = discovered(clips({"id": "string"}), records)

    assert {c.name: c.type.simpleString() for c in columns.columns} == {
        "id": "string",
        "id_source": "bigint",
        "n": "bigint",
        "sub": "string",
        "title": "string",
    }
    assert {name for shape in shapes for name in shape.fields} == set(columns.names)
    assert not any(shape.complete for shape in shapes)


def test_a_document_with_fewer_fields_needs_no_look() -> None:
    of = clips()
    announced = {"id": "string", "title": "string", "size": "int"}
    columns = replace(known_columns(of, {}), announced=announced)
    decode = DebeziumDecoder(of, columns).decode

    assert not decode(sent(event("c", {"_id": OID, "title": "a"}))).mismatched
    assert decode(sent(event("c", {"_id": OID, "new": 1}))).mismatched


def test_a_text_in_after_that_is_no_document_is_a_dead_letter() -> None:
    value = event("c", None) | {"after": "[1]"}

    assert told(clips(), [sent(value)], "_reason") == [("not_json",)]
