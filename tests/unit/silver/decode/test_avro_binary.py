"""Avro's binary encoding against fastavro's, and bytes that are none."""

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silver.decode.avro.binary import NotAvro, parse_schema, read_value

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": ["null", "int"]}]}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "x", "type": ["null", "Tree"]}]}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "All",
    "namespace": "a.b",
    "fields": [
        {"name": "whole", "type": "long"},
        {"name": "small", "type": ["int", "null"]},
        {"name": "single", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "text", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "flag", "type": "boolean"},
        {"name": "none", "type": "null"},
        {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "again", "type": "E"},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "many", "type": ["null", "long", "string"]},
        {"name": "nested", "type": INNER},
        {"name": "named", "type": ["null", "a.b.Inner"]},
    ],
}
LONG = st.integers(-(2**63), 2**63 - 1)
VALUES = st.fixed_dictionaries(
    {
        "whole": LONG,
        "small": st.none() | st.integers(-(2**31), 2**31 - 1),
        "single": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "text": st.text(),
        "raw": st.binary(max_size=200),
        "flag": st.booleans(),
        "none": st.none(),
        "list": st.lists(st.none() | st.text(max_size=5), max_size=5),
        "map": st.dictionaries(st.text(max_size=5), LONG, max_size=5),
        "enum": st.sampled_from("AB"),
        "again": st.sampled_from("AB"),
        "fixed": st.binary(min_size=3, max_size=3),
        "many": st.none() | LONG | st.text(max_size=5),
        "nested": st.sampled_from([{"x": None}, {"x": 5}]),
        "named": st.none() | st.just({"x": None}),
    }
)
PARSED = parse_schema(SCHEMA)


def written(schema: Any, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_values_are_read_as_fastavro_wrote_them(value: dict[str, object]) -> None:
    assert read_value(PARSED, written(SCHEMA, value), 0) == value


@settings(max_examples=300, deadline=None)
@given(VALUES, st.data())
def test_torn_bytes_are_not_avro(value: dict[str, object], data: st.DataObject) -> None:
    whole = written(SCHEMA, value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(NotAvro):
        read_value(PARSED, whole[:cut], 0)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_not_avro(data: bytes) -> None:
    try:
        read_value(PARSED, data, 0)
    except NotAvro:
        return


def test_a_type_within_itself_is_read_as_deep_as_python_goes() -> None:
    schema = parse_schema(TREE)

    assert read_value(schema, b"\x02\x02\0", 0) == {"x": {"x": {"x": None}}}
    with pytest.raises(NotAvro):
        read_value(schema, b"\x02" * 100_000 + b"\0", 0)


def test_a_type_may_be_named_in_an_object_of_its_own() -> None:
    field = {"name": "a", "type": {"type": {"type": "string", "avro.java.string": "String"}}}
    twice = {"name": "b", "type": {"type": "E"}}
    enum = {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}}
    schema = parse_schema({"type": "record", "name": "R", "fields": [field, enum, twice]})

    assert read_value(schema, b"\x02s\x02\0", 0) == {"a": "s", "e": "Y", "b": "X"}


def test_logical_types_and_wrong_defaults_leave_values_as_they_are_encoded() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    day = {"type": "int", "logicalType": "date"}
    fields = [{"name": "a", "type": decimal}, {"name": "b", "type": day, "default": "none"}]
    schema = parse_schema({"type": "record", "name": "R", "fields": fields})

    assert read_value(schema, b"\x02\x05\x04", 0) == {"a": b"\x05", "b": 2}


@pytest.mark.parametrize(
    "schema", ["Unknown", 5, None, {}, {"type": "record2"}, {"type": "record"}, ["null", "x.Y"]]
)
def test_a_schema_that_is_none_is_told(schema: object) -> None:
    with pytest.raises(NotAvro):
        parse_schema(schema)
