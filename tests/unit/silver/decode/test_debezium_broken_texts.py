"""No JSON and no bytes in a record of Debezium raise (torn texts: `test_broken_texts`)."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from silver.decode.columns import known_columns
from silver.decode.wrapped import value_inside
from tests.helpers.debezium_records import plain, table
from tests.helpers.flat_records import decode_records

COLUMNS = known_columns(table(), {})
REASONS = {
    "not_json", "unknown_operation", "illegal_change", "no_key", "bad_value", "bad_sequence",
    "incompatible_schema", None,
}  # fmt: skip


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
