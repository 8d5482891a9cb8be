"""Decimals without a schema block: base64 or numbers as people write them, never by guess."""

from typing import Any

from silver.decode.columns import Columns, known_columns
from silver.decode.debezium.discovery import DebeziumDiscovery
from tests.helpers.debezium_records import (
    discovered,
    event,
    plain,
    table,
)

TYPES = {"id": "int", "qty": "decimal(12,0)", "price": "decimal(12,2)"}


def rows(*texts: tuple[object, object]) -> list[dict[str, Any]]:
    return [event("c", after={"id": n, "qty": q, "price": p}) for n, (q, p) in enumerate(texts)]


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


def test_the_columns_of_a_source_without_decimals_say_nothing() -> None:
    columns, _ = discovered(table(), plain(event("c", after={"id": 1, "name": "12345"})))

    assert columns.decimal_texts is None
