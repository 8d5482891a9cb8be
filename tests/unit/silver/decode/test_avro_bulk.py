"""Avro read for many records at once: the values that each has alone, and broken ones left out."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silver.decode.avro.ahead import read_ahead
from silver.decode.avro.binary import NotAvro, parse_schema, read_value
from silver.decode.avro.bulk import ROW, Unsupported, object_type, read_records
from silver.decode.avro.schemas import avro_value
from silver.decode.change import Record
from silver.decode.debezium.events.envelope import Envelope
from tests.helpers.avro import envelope_schema, optional, packed, registered, row_schema, sent

INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": ["string", "null"]}],
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Outer",
    "namespace": "a.b",
    "fields": [
        {"name": "whole", "type": "long"},
        {"name": "small", "type": ["int", "null"]},
        {"name": "single", **optional("float")},
        {"name": "double", "type": "double"},
        {"name": "text", "type": "string"},
        {"name": "same", "type": "string"},
        {"name": "raw", **optional("bytes")},
        {"name": "flag", **optional("boolean")},
        {"name": "none", "type": "null"},
        {"name": "enum", **optional({"type": "enum", "name": "E", "symbols": ["A", "B"]})},
        {"name": "again", "type": "E"},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "first", **optional(INNER)},
        {"name": "second", "type": ["null", "Inner"]},
        {"name": "empty", "type": {"type": "record", "name": "Empty", "fields": []}},
    ],
}
PARSED = parse_schema(SCHEMA)
NAMES = [field["name"] for field in SCHEMA["fields"]]
LONG = st.integers(-(2**63), 2**63 - 1)
RECORD = st.none() | st.fixed_dictionaries({"n": LONG, "t": st.none() | st.text(max_size=3)})
VALUES = st.fixed_dictionaries(
    {
        "whole": LONG,
        "small": st.none() | st.integers(-(2**31), 2**31 - 1),
        "single": st.none() | st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "text": st.text(max_size=100),
        "same": st.just("é"),
        "raw": st.none() | st.binary(max_size=80),
        "flag": st.none() | st.booleans(),
        "none": st.none(),
        "enum": st.none() | st.sampled_from("AB"),
        "again": st.sampled_from("AB"),
        "fixed": st.binary(min_size=3, max_size=3),
        "first": RECORD,
        "second": RECORD,
        "empty": st.just({}),
    }
)


def bodies(values: Sequence[Any]) -> list[bytes]:
    return [packed(SCHEMA, 1, value) for value in values]


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6))
def test_values_are_those_of_records_read_alone(values: list[dict[str, Any]]) -> None:
    assert read_records(PARSED.parsed, ROW, bodies(values), 5) == values


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=4), st.sets(st.sampled_from(NAMES), min_size=1))
def test_fields_that_are_not_wanted_are_passed_over(
    values: list[dict[str, Any]], wanted: set[str]
) -> None:
    fields = [*sorted(wanted), "missing"]
    type = object_type(lambda *found: found, fields)

    expected = [(*(value[name] for name in sorted(wanted)), None) for value in values]
    assert read_records(PARSED.parsed, type, bodies(values), 5) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(VALUES, min_size=2, max_size=4), st.data())
def test_a_broken_record_costs_no_other(values: list[dict[str, Any]], data: st.DataObject) -> None:
    records = bodies(values)
    broken = data.draw(st.integers(0, len(records) - 1))
    body = bytearray(records[broken][5:])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    records[broken] = records[broken][:5] + bytes(body[:cut] if cut else body)
    try:
        alone: object = read_value(PARSED, records[broken], 5)
    except NotAvro:
        alone = None

    try:
        found = read_records(PARSED.parsed, ROW, records, 5)
    except UnicodeError:
        return

    assert [v for at, v in enumerate(found) if at != broken] == [
        v for at, v in enumerate(values) if at != broken
    ]
    assert found[broken] is None or repr(found[broken]) == repr(alone)


@pytest.mark.parametrize("beside", [[], [b"\x04"], [b"\xff" * 9 + b"\x01"]])
def test_a_number_of_more_than_ten_bytes_is_broken(beside: list[bytes]) -> None:
    schema = {"type": "record", "name": "Outer", "fields": [{"name": "a", "type": "long"}]}
    parsed = parse_schema(schema)
    records = [b"\xff" * 10 + b"\x01", *beside, b"\xff" * 10 + b"\x01"]

    found = read_records(parsed.parsed, ROW, records, 0)

    assert found == [None, *(read_value(parsed, record, 0) for record in beside), None]


@pytest.mark.parametrize(
    "type",
    [
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        ["null", "int", "string"],
        ["null", "Outer"],
    ],
)
def test_some_types_are_read_record_by_record(type: object) -> None:
    schema = {"type": "record", "name": "Outer", "fields": [{"name": "a", "type": type}]}

    with pytest.raises(Unsupported):
        read_records(parse_schema(schema).parsed, ROW, [b"\0"], 0)


FIELDS = [{"name": "id", "type": "long"}, {"name": "name", **optional("string")}]
EVENT = {
    "before": None,
    "after": {"id": 1, "name": "a"},
    "source": {
        "version": "3", "connector": "postgresql", "name": "s", "ts_ms": 1, "db": "d",
        "schema": "p", "table": "t", "lsn": 5, "txId": 1, "snapshot": None, "sequence": None,
    },
    "op": "c",
    "ts_ms": 9,
}  # fmt: skip


def test_what_is_read_ahead_is_what_is_read_alone() -> None:
    """Envelopes, rows, ids of 8 bytes and in headers, beside what is not of its schema."""
    envelope, row = envelope_schema(FIELDS), row_schema(FIELDS)
    schemas = registered(envelope, row) | {"global:7": json.dumps(row)}
    named = json.dumps({"apicurio.value.globalId": "7", "trace": "x"}).encode()
    values = {"id": 1, "name": "é"}
    records = [
        sent(packed(envelope, 1, EVENT)),
        sent(packed(row, 2, values)),
        sent(packed(row, 7, values, long=True)),
        replace(sent(packed(row, 2, values)[5:]), headers=named),
        replace(sent(packed(row, 2, values)), headers=b'{"trace":"y"}'),
    ]
    others = [sent(b"\0\0\0\0\x02\x02"), sent(packed(row, 9, values)), sent(b"{}"), sent(None)]

    read_ahead([*records, *others], schemas, True)

    [first, *rest] = [avro_value(record, schemas)[0] for record in records]
    assert all(record.value is not None for record in records)
    assert isinstance(first, Envelope)
    assert (first.after, first.source and first.source.lsn) == (EVENT["after"], 5)
    assert rest == [values] * 4
    assert [record.value for record in others] == [None] * 4


def test_where_no_envelopes_are_expected_they_are_rows() -> None:
    envelope = envelope_schema(FIELDS)
    records: list[Record] = [sent(packed(envelope, 1, EVENT))]

    read_ahead(records, registered(envelope), False)

    value, _ = avro_value(records[0], registered(envelope))
    assert value == EVENT | {"transaction": None}
