"""Debezium's events and flat rows in Avro, by the schemas of a registry."""

import base64
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.arrow import OF_RECORD
from silver.decode.avro.schemas import connect_block
from silver.decode.change import Change, Record
from silver.decode.columns import Columns, known_columns
from silver.decode.debezium.decoder import DebeziumDecoder
from silver.decode.debezium.discovery import DebeziumDiscovery
from silver.decode.protocols import rows
from silver.decode.slices import Slice
from tests.helpers.avro import envelope_schema, optional, packed, registered, row_schema, sent
from tests.helpers.both_ways import batch, both_ways, same
from tests.helpers.flat_records import decode_records

Given = dict[str, Any]
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "name", **optional("string")},
    {
        "name": "price",
        **optional(DECIMAL | {"connect.name": "org.apache.kafka.connect.data.Decimal"}),
    },
    {"name": "day", **optional({"type": "int", "connect.name": "io.debezium.time.Date"})},
    {
        "name": "at",
        **optional({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}),
    },
    {"name": "data", **optional("bytes")},
    {"name": "ratio", **optional("double")},
    {"name": "tags", **optional({"type": "array", "items": ["null", "string"]})},
]
ROW = {
    "id": 1,
    "name": "a",
    "price": b"\x04\x1a",
    "day": 20370,
    "at": 1760000000123456,
    "data": b"\xff\x00",
    "ratio": 0.1,
    "tags": ["x", None],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
SCHEMAS = registered(envelope_schema(FIELDS), KEY, row_schema(FIELDS))
REGISTRY = {"value_format": "avro", "schema_registry": {"url": "http://registry"}}


def table(format: str = "debezium", **options: Any) -> Table:
    kafka = {"topic": "shop.public.t", "bootstrap_servers": "k:9092"}
    source = {"format": format, "kafka": kafka} | REGISTRY | options.pop("source", {})
    given = {"table": "t", "keys": ["id"], "source": source} | options
    return Table.model_validate(given)


def event(op: str, after: Given | None, lsn: int = 10, **parts: object) -> Given:
    source = {
        "version": "3", "connector": "postgresql", "name": "shop", "ts_ms": 5000, "db": "d",
        "schema": "public", "table": "t", "lsn": lsn, "txId": 7, "snapshot": None, "sequence": None,
    }  # fmt: skip
    return {"before": None, "after": after, "source": source, "op": op, "ts_ms": 6000} | parts


def full(op: str, after: Given | None, offset: int = 0, **parts: object) -> Record:
    value = event(op, after, 10 + offset, **parts)
    key = packed(KEY, 2, {"id": 1 if after is None else after["id"]})
    return sent(packed(envelope_schema(FIELDS), 1, value), key, offset)


def decoded(
    of: Table, records: list[Record], schemas: dict[str, str] = SCHEMAS
) -> tuple[Columns, list[Any]]:
    known = replace(known_columns(of, {}), schemas=schemas)
    kind = rows.RowsDiscovery if of.format == "rows" else DebeziumDiscovery
    discovery = kind(of, known)
    for at, record in enumerate(records):
        discovery.look(replace(record), str(at))
    columns, _ = discovery.settle()
    return columns, decode_records(of, columns, records)


def as_json(row: Given) -> Given:
    packed = {
        n: base64.b64encode(v).decode() if isinstance(v, bytes) else v for n, v in row.items()
    }
    return packed


def test_types_and_values_are_those_of_the_schema() -> None:
    columns, [change] = decoded(table(), [full("c", ROW)])

    assert {c.name: c.type.simpleString() for c in columns.columns} == {
        "id": "bigint",
        "name": "string",
        "price": "decimal(10,2)",
        "day": "date",
        "at": "timestamp_ntz",
        "data": "binary",
        "ratio": "double",
        "tags": "array<string>",
    }
    assert dict(zip(columns.names, change.values, strict=True)) == ROW | {"price": Decimal("10.50")}


@pytest.mark.parametrize("integer", [10**37 + 1, -(10**38) + 1, 0, -1])
def test_decimals_keep_all_their_digits(integer: int) -> None:
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    fields = [{"name": "id", "type": "long"}, {"name": "price", "type": wide}]
    row = {"id": 1, "price": integer.to_bytes(17, "big", signed=True)}
    schema = envelope_schema(fields)

    columns, [change] = decoded(
        table(), [sent(packed(schema, 1, event("c", row)))], registered(schema)
    )

    digits = tuple(int(digit) for digit in str(abs(integer)))
    assert change.values[columns.names.index("price")] == Decimal((integer < 0, digits, -2))


def test_a_type_is_found_by_its_name_with_the_namespace_around_it() -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "shop.orders.Value"]},
    ]
    given = {"type": "record", "name": "Envelope", "namespace": "shop.orders", "fields": fields}
    of_row = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
    assert connect_block(given) == {
        "type": "struct",
        "fields": [{"field": "before"} | of_row, {"field": "after"} | of_row],
    }


def test_changes_are_those_of_the_same_events_in_json() -> None:
    lines = [("c", ROW), ("u", ROW | {"name": None, "ratio": None}), ("d", None)]
    connect = json.dumps(
        {"type": "struct", "fields": [{"field": "after", "fields": CONNECT_FIELDS}]}
    )
    avro, plain = [], []
    for at, (op, row) in enumerate(lines):
        record = full(op, row, at)
        avro.append(record)
        after = None if row is None else as_json(row)
        value = json.dumps(event(op, after, 10 + at))
        text = f'{{"schema":{connect},"payload":{value}}}'
        plain.append(replace(record, raw=text.encode(), key=b'{"id":1}'))
    of_json = Table.model_validate(
        {"table": "t", "keys": ["id"], "source": {"format": "debezium", "path": "t"}}
    )

    by_name = [_named(*decoded(of, records)) for of, records in ((table(), avro), (of_json, plain))]

    assert by_name[0] == by_name[1]


TOKEN = "__debezium_unavailable_value"
BULK = [*FIELDS[:-1], {"name": "large", "type": "string"}]
LARGE = {name: ROW[name] for name in list(ROW)[:-1]} | {"large": "long text"}
NULLS = dict.fromkeys(LARGE) | {"id": 3, "large": ""}


@pytest.mark.parametrize(
    ("more", "fields", "options"),
    [
        ([], BULK, {}),
        ([{}, {"large": TOKEN, "data": TOKEN.encode()}], BULK, {}),
        ([{"data": TOKEN.encode()}], BULK, {"except_column_list": ["data", "large"]}),
        ([{"name": None}], BULK, {"keys": ["id", "name"]}),
        ([{}], BULK, {"keys": []}),
        ([{"other": 5}], [*BULK, {"name": "other", "type": "long"}], {}),
        ([{}], BULK, {"columns": {"id": "string", "name": "string", "at": "string"}}),
        ([{"name": "x"}], BULK, {"columns": {"name": "int"}}),
        ([{"price": b"\x7f\xff\xff"}], BULK, {"columns": {"price": "decimal(4,2)"}}),
        ([{"NAME": "b"}], [*BULK, {"name": "NAME", **optional("string")}], {}),
    ],
    ids=[
        "usual", "placeholders", "left out", "null in key", "no keys", "new column", "declared",
        "no int", "too large", "one column twice",
    ],
)  # fmt: skip
def test_rows_read_together_are_those_read_alone(
    more: list[Given],
    fields: list[Given],
    options: Given,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = envelope_schema(fields)
    schemas = registered(schema, KEY)
    rows = [LARGE, *[LARGE | own for own in more], LARGE | {"id": 2}, NULLS, None]
    spare = {field["name"]: 0 if field["type"] == "long" else None for field in fields}
    before = spare | LARGE if options.get("keys") == [] else None
    events = [
        event("d" if row is None else "u", row and spare | row, at, before=before)
        for at, row in enumerate(rows, 10)
    ]
    key = packed(KEY, 2, {"id": 1})
    records = [sent(packed(schema, 1, event), key, at) for at, event in enumerate(events)]
    records[1:1] = [replace(records[0], raw=(records[0].raw or b"")[:-1])]
    of = table(**options)
    columns = replace(decoded(of, records[:1], schemas)[0], settled=False)
    columns = replace(columns, columns=tuple(c for c in columns.columns if c.name != "other"))

    part = batch([received(record) for record in records])
    same(*both_ways(of, columns, part, monkeypatch))


def test_rows_of_a_table_without_columns_are_those_read_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = envelope_schema(BULK)
    of = table(keys=[])
    columns = replace(known_columns(of, {}), schemas=registered(schema))
    records = [sent(packed(schema, 1, event("c", LARGE, at)), None, at) for at in (1, 2)]
    assert not columns.columns

    part = batch([received(record) for record in records])
    by_columns, alone = both_ways(of, columns, part, monkeypatch)
    same(by_columns, alone)
    assert [change["_mismatched"] for change in alone] == [True, True]


def test_envelopes_of_one_schema_are_read_together() -> None:
    schema = envelope_schema(BULK)
    schemas = registered(schema, KEY)
    key = packed(KEY, 2, {"id": 1})
    spare = dict.fromkeys(LARGE) | {"id": 1, "large": ""}
    values = [event("c", LARGE, 10), event("u", LARGE, 11), event("d", None, 12, before=spare)]
    records = [sent(packed(schema, 1, value), key, at) for at, value in enumerate(values * 6)]
    columns = decoded(table(), [replace(one) for one in records], schemas)[0]

    read = DebeziumDecoder(table(), columns).read(Slice(batch(map(received, records)), OF_RECORD))

    assert read is not None
    assert read.places == [*range(len(records))]
    assert read.columns["_operation"].to_pylist()[:3] == ["upsert", "upsert", "delete"]
    assert read.columns["large"].to_pylist()[:3] == ["long text", "long text", None]


def received(record: Record) -> dict[str, Any]:
    """A record as bronze has it."""
    return {f"_{name}": getattr(record, name) for name in record.__slots__ if name != "value"}


CONNECT_FIELDS = [
    {"field": "id", "type": "int64"},
    {"field": "name", "type": "string"},
    {
        "field": "price",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "data", "type": "bytes"},
    {"field": "ratio", "type": "double"},
    {"field": "tags", "type": "array", "items": {"type": "string"}},
]


def _named(columns: Columns, changes: list[Change]) -> list[Any]:
    return [
        (
            dict(zip(columns.names, change.values, strict=True)),
            (change.operation, change.sequence, change.source_time, change.transaction),
            (change.reason, change.message),
        )
        for change in changes
    ]


def test_records_of_several_schemas_are_read_each_by_its_own() -> None:
    """A column was added, then one dropped and another widened; the records come out of order."""
    first = [{"name": "id", "type": "int"}, {"name": "old", **optional("string")}]
    second = [*first, {"name": "nr", **optional("int")}]
    third = [{"name": "id", "type": "long"}, {"name": "nr", **optional("long")}]
    schemas = [envelope_schema(fields) for fields in (first, second, third)]
    values = [{"id": 1, "old": "a"}, {"id": 2, "old": "b", "nr": 5}, {"id": 2**40, "nr": 2**33}]
    records = [
        sent(packed(schema, id, event("c", row, id)), None, id)
        for id, (schema, row) in enumerate(zip(schemas, values, strict=True), 1)
    ]

    columns, changes = decoded(table(), [records[2], records[0], records[1]], registered(*schemas))

    assert columns.names == ["id", "nr", "old"]
    assert [c.values for c in changes] == [[2**40, 2**33, None], [1, None, "a"], [2, 5, "b"]]


def test_rows_without_an_envelope_are_flattened_events() -> None:
    marks = [{"name": "__deleted", "type": "string"}, {"name": "__lsn", **optional("long")}]
    schema = row_schema([*FIELDS, *marks])
    schemas = registered(schema, KEY)
    kept = packed(schema, 1, ROW | {"__deleted": "false", "__lsn": 5})
    gone = packed(schema, 1, ROW | {"__deleted": "true", "__lsn": 6})
    key = packed(KEY, 2, {"id": 1})
    records = [sent(kept, key, 1), sent(gone, key, 2), sent(None, key, 3)]

    columns, changes = decoded(table(), records, schemas)

    assert [change.operation for change in changes] == ["upsert", "delete", "none"]
    assert changes[0].values[columns.names.index("price")] == Decimal("10.50")


def test_tombstones_of_flattened_events_delete_by_their_key() -> None:
    schema = row_schema(FIELDS)
    key = packed(KEY, 2, {"id": 1})
    records = [sent(packed(schema, 1, ROW), key, 1), sent(None, key, 2)]

    _, changes = decoded(table(), records, registered(schema, KEY))

    assert [(c.operation, c.values[0]) for c in changes] == [("upsert", 1), ("delete", 1)]


def test_a_row_that_shows_no_form_is_no_marker() -> None:
    other = row_schema([{"name": "data", "type": "string"}, {"name": "ts_ms", "type": "long"}])
    marker = row_schema([{"name": "ts_ms", "type": "long"}])
    records = [
        sent(packed(other, 1, {"data": "a", "ts_ms": 5})),
        sent(packed(marker, 2, {"ts_ms": 5})),
    ]

    _, changes = decoded(table(), records, registered(other, marker))

    assert [(c.operation, c.reason) for c in changes] == [
        (None, "unknown_operation"),
        ("none", None),
    ]


def test_a_delete_without_its_row_is_known_by_its_key() -> None:
    _, [change] = decoded(table(), [full("d", None)])

    assert (change.operation, change.values[0]) == ("delete", 1)


def test_a_value_that_the_source_left_out_is_absent() -> None:
    token = "__debezium_unavailable_value"
    row = ROW | {"name": token, "data": token.encode(), "tags": [token]}

    _, [change] = decoded(table(), [full("u", row)])

    assert change.absent == ["name", "data", "tags"]


def test_ids_of_eight_bytes_are_global_ones() -> None:
    schema = envelope_schema(FIELDS)
    record = sent(packed(schema, 77, event("c", ROW), long=True))

    _, [change] = decoded(table(), [record], {"global:77": json.dumps(schema)})

    assert (change.operation, change.values[0]) == ("upsert", 1)


def test_ids_in_headers_leave_values_and_keys_bare() -> None:
    """As Apicurio's serializers write them, with global ids or content ids."""
    schema = envelope_schema(FIELDS)
    value, key = packed(schema, 1, event("d", None))[5:], packed(KEY, 2, {"id": 1})[5:]
    headers = {"apicurio.value.globalId": "7", "apicurio.key.contentId": "8"}
    record = replace(sent(value, key), headers=json.dumps(headers).encode())
    schemas = {"global:7": json.dumps(schema), "content:8": json.dumps(KEY)}

    _, [change] = decoded(table(), [record], schemas)

    assert (change.operation, change.values[0]) == ("delete", 1)


DOCUMENT = {"type": "string", "connect.name": "io.debezium.data.Json"}
UPDATE = {
    "type": "record",
    "name": "updatedescription",
    "namespace": "io.debezium.connector.mongodb",
    "fields": [
        {"name": "removedFields", **optional({"type": "array", "items": "string"})},
        {"name": "updatedFields", **optional(DOCUMENT)},
    ],
}
OF_MONGODB: Given = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.clips",
    "fields": [
        {"name": "before", **optional(DOCUMENT)},
        {"name": "after", **optional(DOCUMENT)},
        {"name": "updateDescription", **optional(UPDATE)},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [
                    {"name": "connector", "type": "string"},
                    {"name": "ts_ms", "type": "long"},
                    {"name": "ord", "type": "int"},
                ],
            },
        },
        {"name": "op", **optional("string")},
    ],
}
DOCUMENT_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]}


def document(op: str, ord: int, after: str | None = None, **parts: object) -> Record:
    source = {"connector": "mongodb", "ts_ms": 5000, "ord": ord}
    value = {"before": None, "after": after, "source": source, "op": op} | parts
    key = packed(DOCUMENT_KEY, 2, {"id": "5"})
    return sent(packed(OF_MONGODB, 1, value), key, ord)


def test_documents_of_mongodb_are_those_of_the_same_events_in_json() -> None:
    text = '{"_id": {"$numberLong": "5"}, "at": {"$date": 1000}, "n": {"m": [1]}, "name": "a"}'
    update = {"removedFields": ["name"], "updatedFields": '{"n": 1.5}'}
    avro = [
        document("c", 1, text),
        document("u", 2, updateDescription=update),
        document("d", 3),
        document("c", 4, "[]"),
    ]
    in_json = [
        (b'{"id":"5"}', {"op": "c", "after": text}),
        (b'{"id":"5"}', {"op": "u", "updateDescription": update}),
        (b'{"id":"5"}', {"op": "d"}),
    ]
    plain = []
    for ord, (key, value) in enumerate(in_json, 1):
        source = {"connector": "mongodb", "ts_ms": 5000, "ord": ord}
        plain.append(sent(json.dumps(value | {"source": source}).encode(), key, ord))
    declared = {"id": "bigint", "at": "timestamp", "n": "string", "name": "string"}
    of_json = {"format": "debezium", "path": "t"}
    given = {"table": "t", "keys": ["id"], "source": of_json, "columns": declared}

    columns, changes = decoded(table(columns=declared), avro, registered(OF_MONGODB, DOCUMENT_KEY))
    expected = decoded(Table.model_validate(given), plain)

    assert _named(columns, changes[:3]) == _named(*expected)
    assert [c.operation for c in changes] == ["upsert", "upsert", "delete", None]
    assert [c.absent for c in changes] == [None, ["at"], None, None]
    assert (changes[3].reason, changes[3].message) == (
        "not_avro",
        "found a document that is not JSON: the document is no object",
    )


@pytest.mark.parametrize("format", ["debezium", "rows"])
def test_records_of_a_source_in_json_stand_beside_avro(format: str) -> None:
    """A load of files, once, and the stream in Avro."""
    kafka = {"topic": "shop.public.t", "bootstrap_servers": "k:9092"}
    sources = [
        {"format": format, "path": "load", "once": True},
        {"format": format, "kafka": kafka} | REGISTRY,
    ]
    given = {"table": "t", "keys": ["id"], "sources": sources, "columns": {"id": "bigint"}}
    of = Table.model_validate(given | ({"sequence_by": "id"} if format == "rows" else {}))
    if format == "debezium":
        raw = json.dumps(event("c", {"id": 5})).encode()
        avro = packed(envelope_schema(FIELDS), 1, event("c", ROW))
    else:
        raw, avro = b'{"id":5}', packed(row_schema(FIELDS), 3, ROW)

    columns, changes = decoded(of, [sent(raw), sent(avro, None, 1)])

    at = columns.names.index("id")
    assert [(c.operation, c.values[at]) for c in changes] == [("upsert", 5), ("upsert", 1)]


ROUTED = "__dbz__physicalTableIdentifier"
ROUTED_KEY = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "long"}, {"name": ROUTED, "type": "string"}],
}


def routed() -> Record:
    """A whole row whose key has a member that a router added."""
    key = packed(ROUTED_KEY, 2, {"id": 1, ROUTED: "shop.eu.t"})
    return sent(packed(envelope_schema(FIELDS), 1, event("c", ROW)), key, 1)


def test_a_part_of_the_key_that_is_no_key_of_the_table_is_found() -> None:
    schemas = registered(envelope_schema(FIELDS), ROUTED_KEY)
    broken = replace(routed(), key=b"\0\0\0\0\x02\xff")

    columns, changes = decoded(table(), [broken, routed()], schemas)

    assert columns.key_parts == (ROUTED,)
    assert [change.operation for change in changes] == ["upsert", "upsert"]


def test_a_column_may_be_taken_from_the_key() -> None:
    schemas = registered(envelope_schema(FIELDS), ROUTED_KEY)
    of = table(columns={"origin": {"type": "string", "from": ROUTED}})

    columns, [change] = decoded(of, [routed()], schemas)

    assert columns.key_parts == ()
    assert change.values[columns.names.index("origin")] == "shop.eu.t"


def test_a_column_may_be_taken_from_the_source_block() -> None:
    of = table(columns={"shard": {"type": "string", "from": "source.db"}})

    columns, [change] = decoded(of, [full("c", ROW)])

    assert change.values[columns.names.index("shard")] == "d"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"id":1}', "without the id of a schema"),
        (b"\0\0\0\0\x09\x02", "schema 9, which bronze does not keep"),
        (b"\0\0\0\0\x01\x02", "not of schema 1"),
        (b"", "without the id"),
    ],
)
def test_bytes_that_are_no_avro_of_a_known_schema_are_dead_letters(raw: bytes, said: str) -> None:
    for of in (table(), table("rows", sequence_by="id", columns={"id": "bigint"})):
        _, [change] = decoded(of, [sent(raw)])

        assert change.reason == "not_avro"
        assert said in (change.message or "")


@pytest.mark.parametrize("format", ["debezium", "rows"])
def test_avro_that_nobody_declared_is_told_by_name(format: str) -> None:
    source = {"format": format, "path": "t"}
    given = {"table": "t", "keys": ["id"], "source": source, "columns": {"id": "bigint"}}
    of = Table.model_validate(given | ({"sequence_by": "id"} if format == "rows" else {}))

    _, [change] = decoded(of, [sent(packed(row_schema(FIELDS), 3, ROW))])

    assert change.reason == "not_json"
    assert "source.value_format: avro" in (change.message or "")


def test_format_rows_reads_avro_by_declared_types() -> None:
    columns = {"id": "bigint", "price": "decimal(10,2)", "day": "date", "data": "binary"}
    of = table("rows", sequence_by="id", columns=columns)

    found, [change] = decoded(of, [sent(packed(row_schema(FIELDS), 3, ROW))])
    values = dict(zip(found.names, change.values, strict=True))

    assert (values["price"], values["day"], values["data"]) == (
        Decimal("10.50"),
        20370,
        b"\xff\x00",
    )
    assert values["ratio"] == 0.1


def test_envelopes_with_the_old_names_of_columns_are_read_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, key = [{**f, "name": {"id": "no"}.get(f["name"], f["name"])} for f in BULK], ("id", "no")
    schemas = registered(*[envelope_schema(fields) for fields in (BULK, old)], KEY)
    of = table(columns={"id": {"type": "bigint", "renamed_from": "no"}})
    rows = [(1, BULK, "id"), (2, old, "no")] * 3
    given = [{n: v for n, v in LARGE.items() if n not in key} | {name: 7} for *_, name in rows]
    records = [
        sent(packed(envelope_schema(fields), id, event("c", row, at)), None, at)
        for at, ((id, fields, _), row) in enumerate(zip(rows, given, strict=True))
    ]
    columns = decoded(of, [replace(one) for one in records], schemas)[0]

    by_columns, alone = both_ways(of, columns, batch(map(received, records)), monkeypatch)

    same(by_columns, alone)
    assert [(row["id"], row["_operation"]) for row in alone] == [(7, "upsert")] * 6
    assert "no" not in columns.names
