"""MongoDB's change events: documents as JSON text, keys named by `_id`, changed fields."""

import json
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.debezium.events.documents import id_text, to_plain_json
from silver.decode.values.json_values import NumberText
from tests.helpers.debezium_records import decoded, discovered, table, whole

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
