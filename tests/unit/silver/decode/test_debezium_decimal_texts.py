"""Decimals without a schema block: base64 or numbers as people write them, never by guess."""

from decimal import Decimal
from typing import Any

import pytest

from silver.decode.columns import Columns, known_columns
from silver.decode.debezium.discovery import DebeziumDiscovery
from tests.helpers.debezium_records import (
    decoded,
    decoded_with,
    discovered,
    event,
    plain,
    table,
    whole,
)

TYPES = {"id": "int", "qty": "decimal(12,0)", "price": "decimal(12,2)"}


def rows(*texts: tuple[object, object]) -> list[dict[str, Any]]:
    return [event("c", after={"id": n, "qty": q, "price": p}) for n, (q, p) in enumerate(texts)]


def values(found: list[dict[str, Any]]) -> list[tuple[object, object, object]]:
    return [(row["qty"], row["price"], row["_reason"]) for row in found]


def test_a_source_that_writes_numbers_as_texts_is_read_as_it_writes() -> None:
    lines = rows(("1234", "10.50"), ("12345", "7.00"), ("10002000", "99.90"))

    found = values(decoded(table(columns=TYPES), plain(*lines)))

    assert found == [
        (1234, Decimal("10.50"), None),
        (12345, Decimal("7.00"), None),
        (10002000, Decimal("99.90"), None),
    ]


def test_a_source_that_writes_base64_is_read_as_base64() -> None:
    found = values(decoded(table(columns=TYPES), plain(*rows(("1234", "BQ=="), (None, "Bdw=")))))

    assert found == [(-2658824, Decimal("0.05"), None), (None, Decimal("15.00"), None)]


@pytest.mark.parametrize("other", [("1234", None), ("12345", "BQ==")])
def test_digits_are_a_dead_letter_where_nothing_or_both_is_shown(other: Any) -> None:
    found = decoded(table(columns=TYPES), plain(*rows(("1234", None), other)))

    assert found[0]["_reason"] == "bad_value"
    assert "source.decimal_handling_mode" in found[0]["_message"]
    assert found[1]["_reason"] == (None if other[1] else "bad_value")


@pytest.mark.parametrize(
    ("mode", "expected"), [("precise", -2658824), ("string", 1234), ("double", 1234)]
)
def test_the_declared_mode_decides_alone(mode: str, expected: int) -> None:
    of = table(columns=TYPES, source={"decimal_handling_mode": mode})

    found = decoded(of, plain(*rows(("1234", None))))

    assert values(found) == [(expected, None, None)]


@pytest.mark.parametrize(
    ("known", "text", "mismatched"),
    [
        (None, "1234", True),
        (None, "12345", False),
        (None, "AQ==", False),
        ("plain", "1234", False),
        ("plain", "AQ==", True),
        ("base64", "1234", False),
        ("base64", "12345", True),
        ("base64", "rubbish", False),
    ],
)
def test_a_text_against_what_is_known_sends_for_all_of_the_batch(
    known: str | None, text: str, mismatched: bool
) -> None:
    of = table(columns=TYPES)
    columns = Columns(known_columns(of, {}).columns, decimal_texts=known)

    [found] = decoded_with(of, columns, plain(*rows((text, None))))

    assert found["_mismatched"] is mismatched


def test_what_is_known_of_the_source_counts_beside_the_batch() -> None:
    of = table(columns=TYPES)
    known = Columns(known_columns(of, {}).columns, decimal_texts="base64")

    def settled(*texts: tuple[object, object]) -> str | None:
        discovery = DebeziumDiscovery(of, known)
        for at, record in enumerate(plain(*rows(*texts))):
            discovery.look(record, str(at))
        return discovery.settle()[0].decimal_texts

    assert settled(("1234", None)) == "base64"
    assert settled(("1234", "1.50")) is None


def test_discoveries_of_two_tasks_are_put_together() -> None:
    of = table(columns=TYPES)
    first, second = (DebeziumDiscovery(of, known_columns(of, {})) for _ in range(2))
    first.look(plain(*rows(("12345", None)))[0], "0")
    second.look(plain(*rows(("AQ==", None)))[0], "1")

    assert first.settle()[0].decimal_texts == "plain"
    first.merge(second)
    assert first.settle()[0].decimal_texts is None


def test_a_decimal_key_of_a_deleted_row_shows_the_form_too() -> None:
    of = table(columns={"id": "decimal(12,0)"})
    lines = [event("d", before={"id": "12345"}), event("d", before={"id": "1234"})]

    assert [row["id"] for row in decoded(of, plain(*lines))] == [12345, 1234]


def test_arrays_of_decimals_show_the_form() -> None:
    of = table(columns={"id": "int", "sums": "array<decimal(12,0)>"})
    lines = [
        event("c", after={"id": 1, "sums": ["1234", "12345"]}),
        event("c", after={"id": 2, "sums": ["1234"]}),
    ]

    assert [row["sums"] for row in decoded(of, plain(*lines))] == [[1234, 12345], [1234]]


def test_a_schema_block_decides_for_its_own_records() -> None:
    field = {
        "field": "qty",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "0"},
    }
    block = {"fields": [{"field": "after", "fields": [{"field": "id", "type": "int32"}, field]}]}
    payload = event("c", after={"id": 1, "qty": "1234"})
    texts = rows(("1234", "7.00"))

    found = decoded(table(columns=TYPES), plain({"schema": block, "payload": payload}, *texts))

    assert [row["qty"] for row in found] == [-2658824, 1234]


def test_a_misfit_in_the_old_row_of_a_table_without_keys_is_a_dead_letter() -> None:
    of = table(keys=(), columns={"id": "int"})

    [found] = decoded(of, plain(event("u", before={"id": "x"}, after={"id": 1})))

    assert (found["_reason"], found["_message"]) == (
        "bad_value",
        "column id: found 'x', expected int",
    )


def test_a_misfit_in_the_key_before_a_key_change_is_a_dead_letter() -> None:
    header = {"__debezium.oldkey": {"id": "x"}}
    record = {"topic": "t", "partition": 0, "offset": 1, "headers": header}

    [found] = decoded(table(), whole(record | {"value": event("c", after={"id": 1})}))

    assert found["_reason"] == "bad_value"


def test_the_columns_of_a_source_without_decimals_say_nothing() -> None:
    columns, _ = discovered(table(), plain(event("c", after={"id": 1, "name": "12345"})))

    assert columns.decimal_texts is None
