"""A text that is no JSON is a dead letter, whatever became of it; no text raises.

Records lose, gain and change characters, are torn, and run into each other, as in files that were
cut off or written by two at a time. What counts as JSON is the answer of Python's own parser.
"""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.decode.columns import known_columns
from silver.decode.wrapped import value_inside
from tests.helpers.debezium_records import event, plain, table, wrapped
from tests.helpers.flat_records import decode_records

COLUMNS = known_columns(table(), {})
ODD = '{}[]",:\\0nx \t'
TEXTS = ["a", 'b}"{', "x\\y", "[1]", '{"k": 1}', "},{"]
REASONS = {
    "not_json", "unknown_operation", "illegal_change", "no_key", "bad_value", "bad_sequence",
    "incompatible_schema", None,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_a_text_that_is_no_json_is_a_dead_letter(seed: int) -> None:
    random = Random(seed)
    texts = [made(random, at) for at in range(100)]
    torn = [broken(random, text, random.choice(texts)) for text in texts]

    def reasons(lines: list[str]) -> list[str | None]:
        values = [value_inside(t.encode()) if t.startswith('{"topic"') else t for t in lines]
        records = plain(*values)
        return [change.reason for change in decode_records(table(), COLUMNS, records)]

    assert set(reasons(texts)) == {None}
    found = reasons(torn)
    wrong = [t for t, why in zip(torn, found, strict=True) if not is_json(t) and why != "not_json"]
    assert wrong == []
    assert set(found) <= REASONS


Values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "op", "lsn", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
Names = (
    "before", "after", "source", "transaction", "op", "pk", "status", "ddl", "ts_us", "ts_ms",
    "schema", "payload",
)  # fmt: skip


@given(value=st.dictionaries(st.sampled_from(Names), Values), key=Values, inside=st.booleans())
def test_no_json_raises(value: dict[str, Any], key: Any, inside: bool) -> None:
    whole = json.dumps({"value": value}).encode()
    [record] = plain(value_inside(whole) if inside else value)
    record.key, record.headers = json.dumps(key).encode(), json.dumps(key).encode()

    [change] = decode_records(table(), COLUMNS, [record])

    assert change.reason in REASONS
    assert (change.operation is None) == (change.reason is not None)


@given(text=st.binary(max_size=40))
def test_no_bytes_raise(text: bytes) -> None:
    [record] = plain(text)
    record.key = record.headers = text

    [change] = decode_records(table(), COLUMNS, [record])
    assert change.reason in REASONS


def made(random: Random, at: int) -> str:
    """A change, alone or in a whole record."""
    row = {"id": at, "name": random.choice(TEXTS)}
    change: Any = event("c", after=row, source={"connector": "postgresql", "lsn": at}, ts_ms=at)
    value = random.choice([change, wrapped(change, "id", "name")])
    if random.random() < 0.6:
        value = {"topic": "t", "partition": 0, "offset": at, "key": None, "value": value}
    return json.dumps(value, separators=random.choice([(",", ":"), (", ", ": ")]))


def broken(random: Random, text: str, other: str) -> str:
    """The text with one thing done to it; not all of them keep it from being JSON."""
    at, odd = random.randrange(1, len(text)), random.choice(ODD)
    rest = other[random.randrange(len(other)) :]
    return random.choice(
        [
            text[:at] + text[at + 1 :],
            text[:at] + odd + text[at:],
            text[:at] + odd + text[at + 1 :],
            text[:at] + rest,
            text[:at] + other,
            text[at:] + text[:at],
            text + rest,
            text + "," + other,
        ]
    )


def is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict) or not text.strip()
    except ValueError:
        return not text.strip()
