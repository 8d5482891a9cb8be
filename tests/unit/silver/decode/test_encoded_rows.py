"""Format rows over records that Debezium wrote and a transform flattened."""

from decimal import Decimal
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.expressions.names import FAULT
from silver.decode.protocols.rows import EVERY
from tests.helpers.builders import table
from tests.helpers.flat_records import decoded, micros

COLUMNS = {
    "id": "int",
    "made": "timestamp_ntz",
    "day": "date",
    "price": "decimal(10,2)",
    "data": "binary",
    "note": "string",
}
ROW = {"id": 1, "made": 1760000000123456, "day": 20370, "price": "BBo=", "data": "/wA="}
MARKS = {"__op": "u", "__deleted": "false", "__source_lsn": 100}
KEY = b'{"id":1}'
TYPED = (1, micros("2025-10-09T08:53:20.123456Z"), 20370, Decimal("10.50"), b"\xff\x00")


def rows(**options: Any) -> Table:
    given = {"sequence_by": "__source_lsn", "columns": COLUMNS} | options
    return table("rows", ["id"], **given)


def block(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"field": "id", "type": "int32"}, *fields]}


def test_encoded_values_are_read_by_the_declared_types() -> None:
    found = decoded(rows(), [ROW | MARKS])

    assert found.values("id", "made", "day", "price", "data") == [TYPED]


def test_values_in_their_own_form_are_taken_as_they_are() -> None:
    plain = {"id": 1, "made": "2025-10-09 08:53:20.123456", "day": "2025-10-09", "price": "1050"}

    found = decoded(rows(), [plain | MARKS])

    assert found.values("made", "day", "price") == [(TYPED[1], TYPED[2], Decimal("1050.00"))]


@pytest.mark.parametrize(("mode", "price"), [("precise", "-26668.92"), ("string", "1050.00")])
def test_the_declared_mode_says_what_digits_are(mode: str, price: str) -> None:
    of = rows()
    source = of.feeds[0].model_dump(exclude_unset=True) | {"decimal_handling_mode": mode}
    of = Table.model_validate(of.model_dump(exclude_unset=True) | {"source": source})

    found = decoded(of, [ROW | MARKS | {"price": "1050"}])

    assert found.values("price") == [Decimal(price)]


def test_the_declared_mode_says_what_bytes_are() -> None:
    of = rows()
    source = of.feeds[0].model_dump(exclude_unset=True) | {"binary_handling_mode": "hex"}
    of = Table.model_validate(of.model_dump(exclude_unset=True) | {"source": source})

    assert decoded(of, [ROW | MARKS | {"data": "ff00ff00"}]).values("data") == [b"\xff\x00\xff\x00"]


def test_rows_of_another_origin_are_not_encoded() -> None:
    found = decoded(rows(sequence_by="id"), [{"id": 1, "day": 20370, "price": "BBo="}])

    assert found.told("reason") == ["bad_value"]


def test_a_wrapper_is_opened_and_its_schema_block_tells_the_encodings() -> None:
    time = {"field": "made", "type": "int64", "name": "io.debezium.time.NanoTimestamp"}
    value = {"schema": block(time), "payload": {"id": 1, "made": 1760000000123456789}}

    found = decoded(rows(), [value, {"schema": None, "payload": {"id": 2, "note": "x"}}])

    assert found.values("id", "made", "note") == [(1, TYPED[1], None), (2, None, "x")]


def test_columns_can_be_called_schema_and_payload() -> None:
    columns = {"schema": "string", "payload": "string"}
    of = table("rows", ["schema"], sequence_by="payload", columns=columns)

    assert decoded(of, [{"schema": "a", "payload": {"b": 1}}]).values("schema", "payload") == [
        ("a", '{"b":1}')
    ]


@pytest.mark.parametrize(
    "value", ["__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]
)
def test_a_value_that_the_source_left_out_is_absent(value: str) -> None:
    first = ROW | MARKS | {"note": value, "__op": "c"}

    found = decoded(rows(), [ROW | MARKS | {"note": value}, {"id": 1, "note": value}, first])

    assert found.values("note") == [None, None, value]
    assert found.told("absent") == [["note"], ["made", "day", "price", "data", "note"], None]


def test_another_placeholder_can_be_declared() -> None:
    of = rows(source={"unavailable_value": "n/a"})

    assert decoded(of, [{"id": 1, "note": "n/a"}]).told("absent") == [
        ["made", "day", "price", "data", "note"]
    ]


def test_a_tombstone_behind_a_row_that_says_the_delete_says_nothing() -> None:
    of = rows(apply_as_deletes="__deleted = 'true'")

    assert decoded(of, [None], key=KEY).told("operation", "reason") == [("none", None)]


def test_a_tombstone_that_alone_says_the_delete_is_a_dead_letter() -> None:
    found = decoded(rows(), [None], key=KEY)

    assert found.told("operation", "reason") == [(None, "bad_sequence")]
    assert "envelope: flattened" in found.told("message")[0]
    assert found.values(FAULT) == [EVERY]
    assert decoded(rows(), [None]).told("operation") == ["none"]


def test_a_row_without_its_key_is_shown_by_its_members() -> None:
    nested = {"old": None, "data": [{"id": "1"}], "type": "INSERT", "ts": 1}

    [message] = decoded(rows(), [nested]).told("message")

    assert message == "key column id: missing or null; the row has old, data, type, ts"
