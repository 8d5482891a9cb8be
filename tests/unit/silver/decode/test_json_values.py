import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.decode.values.json_values import MOST_LEVELS, NotJson, NumberText, json_text, parse_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    "text",
    ["1", "-0.0", "1.10", "1E400", "123456789012345678901234567890", "0.12345678901234567890"],
)
def test_a_number_loses_no_digit(text: str) -> None:
    assert json_text(parse_json(text)) == text
    assert json_text(parse_json(f'{{"a":[{text}]}}')) == f'{{"a":[{text}]}}'


def test_numbers_with_a_fraction_are_told_from_texts() -> None:
    values = parse_json(b'[1.5,"1.5"]')
    assert isinstance(values, list)
    number, text = values
    assert number == text
    assert (type(number), type(text)) == (NumberText, str)


@given(JSON)
def test_values_come_back_as_they_were(value: Any) -> None:
    text = json_text(value)

    assert parse_json(text) == parse_json(text.encode()) == value
    assert json.loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "NaN", "Infinity", "{'a':1}", '{"a":1,}', "1 2", "{} x", "01", "+1", ".5", "1.",
        "tru", '"\\q"', '{"a"}', "{1:2}", "\ufeff{}", "9" * 5000,
        b'"\xff"', b'{"a":"\xed\xa0\x80"}', b"\x00",
    ],
)  # fmt: skip
def test_what_is_no_json(text: str | bytes) -> None:
    with pytest.raises(NotJson):
        parse_json(text)


def test_of_a_member_that_is_there_twice_the_last_counts() -> None:
    assert parse_json('{"a":1,"a":2}') == {"a": 2}


def test_control_characters_may_stand_in_texts() -> None:
    assert parse_json(b'{"a":"x\ty\x01"}') == {"a": "x\ty\x01"}


@pytest.mark.parametrize("opened", ["[", '{"a":'])
@pytest.mark.parametrize(
    ("levels", "fits"), [(MOST_LEVELS, True), (MOST_LEVELS + 1, False), (100_000, False)]
)
def test_nesting_ends_somewhere(opened: str, levels: int, fits: bool) -> None:
    closed = {"[": "]"}.get(opened, "}")
    text = opened * levels + "1" + closed * levels

    if not fits:
        with pytest.raises(NotJson):
            parse_json(text)
    else:
        assert json_text(parse_json(text)) == text


def test_brackets_in_texts_and_beside_each_other_are_no_levels() -> None:
    value = {"a": '[{"\\' * 1000, "b": [[]] * 1000}

    assert parse_json(json.dumps(value)) == value
