"""The value in a whole record, in each shape that programs write records down in."""

import json
from typing import Any

import pytest

from lakehouse.config.formats import is_whole
from silver.decode.wrapped import other_form, value_inside

VALUE = {"op": "c", "after": {"id": 1, "price": 1.10}}
TEXT = '{"op": "c", "after": {"id": 1, "price": 1.10}}'
ORIGIN = {"topic": "t", "partition": 0, "offset": 5}
SHAPES: dict[str, dict[str, Any]] = {
    "kcat": ORIGIN | {"tstype": "create", "ts": 1, "broker": 1, "key": "{}", "payload": TEXT},
    "kcat_of_objects": ORIGIN | {"tstype": "create", "ts": 1, "key": {}, "payload": VALUE},
    "rpk": {"topic": "t", "key": "{}", "value": TEXT, "timestamp": 1, "partition": 0, "offset": 5},
    "sink": {"key": {"id": 1}, "value": VALUE, "offset": 5, "timestamp": 1, "headers": []},
    "value_alone": {"value": VALUE},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_value_is_found_in_each_shape(shape: str) -> None:
    assert is_whole(SHAPES[shape])
    assert json.loads(value_inside(json.dumps(SHAPES[shape]).encode()) or b"") == VALUE


def test_a_value_is_kept_to_the_letter() -> None:
    whole = b' {"key": 1, "value" : {"op":"c", "n": 1.10, "s":"\\u00e4"} }\n'

    assert value_inside(whole) == b'{"op":"c", "n": 1.10, "s":"\\u00e4"}'


@pytest.mark.parametrize(
    "line",
    [
        ORIGIN | {"payload": None},
        ORIGIN | {"value": None, "key": "1"},
        {"topic": "t", "key": "1", "offset": 3},
    ],
)
def test_a_record_without_a_value_is_a_tombstone(line: dict[str, Any]) -> None:
    assert is_whole(line)
    assert value_inside(json.dumps(line).encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        {"schema": {}, "payload": VALUE},
        {"topic": "t", "offset": 3, "payload": "of an outbox"},
        {"__op": "c", "value": 3, "id": 1},
        VALUE,
        {"id": 1},
    ],
)
def test_other_objects_are_no_whole_records(line: dict[str, Any]) -> None:
    assert not is_whole(line)


@pytest.mark.parametrize("text", [b"no JSON", b'{"value": {}', b'{"value": "\\ud800\x01"}'])
def test_what_is_no_json_is_refused_as_such(text: bytes) -> None:
    left = value_inside(text)

    assert left is not None
    with pytest.raises(ValueError):
        json.loads(left)


@pytest.mark.parametrize("text", [b'{"a": 1}', b'{"a=b": 1}', b"nonsense", b'{"a": "x\ty"}', b""])
def test_other_texts_have_no_known_form(text: bytes) -> None:
    assert other_form(text) is None
