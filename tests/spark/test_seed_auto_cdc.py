"""The published example of AUTO CDC, users 123 to 126, with the tables that it prints."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from tests import flat
from tests.builders import table

pytestmark = pytest.mark.slow

EVENTS: list[tuple[int | None, str | None, str | None, str, int]] = [
    (124, "Raul", "Oaxaca", "INSERT", 1),
    (123, "Isabel", "Monterrey", "INSERT", 1),
    (125, "Mercedes", "Tijuana", "INSERT", 2),
    (126, "Lily", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "Mercedes", "Guadalajara", "UPDATE", 6),
    (125, "Mercedes", "Mexicali", "UPDATE", 5),
    (123, "Isabel", "Chihuahua", "UPDATE", 5),
]
TRUNCATE = (None, None, None, "TRUNCATE", 3)
COMMON: dict[str, Any] = {
    "sequence_by": "sequenceNum",
    "columns": {"userId": "int", "name": "string", "city": "string", "sequenceNum": "int"},
    "apply_as_deletes": "operation = 'DELETE'",
    "except_column_list": ["operation", "sequenceNum"],
}
SCD_1 = [
    (124, "Raul", "Oaxaca"),
    (125, "Mercedes", "Guadalajara"),
    (126, "Lily", "Cancun"),
]
SCD_2 = [
    (123, "Isabel", "Chihuahua", 5, 6),
    (123, "Isabel", "Monterrey", 1, 5),
    (124, "Raul", "Oaxaca", 1, None),
    (125, "Mercedes", "Guadalajara", 6, None),
    (125, "Mercedes", "Mexicali", 5, 6),
    (125, "Mercedes", "Tijuana", 2, 5),
    (126, "Lily", "Cancun", 2, None),
]
SCD_2_EXCEPT_CITY = [
    (123, "Isabel", "Chihuahua", 1, 6),
    (124, "Raul", "Oaxaca", 1, None),
    (125, "Mercedes", "Guadalajara", 2, None),
    (126, "Lily", "Cancun", 2, None),
]
CASES: dict[str, tuple[dict[str, Any], list[Any], list[tuple[Any, ...]]]] = {
    "SCD 1": ({}, EVENTS, SCD_1),
    "SCD 1 with truncate": (
        {"apply_as_truncates": "operation = 'TRUNCATE'"},
        [*EVENTS, TRUNCATE],
        [(125, "Mercedes", "Guadalajara")],
    ),
    "SCD 2": ({"stored_as_scd_type": 2}, EVENTS, SCD_2),
    "SCD 2 but for the city": (
        {"stored_as_scd_type": 2, "track_history_except_column_list": ["city"]},
        EVENTS,
        SCD_2_EXCEPT_CITY,
    ),
}


def in_order(events: list[Any]) -> list[list[Any]]:
    return [events]


def in_reverse(events: list[Any]) -> list[list[Any]]:
    return [events[::-1]]


def one_event_per_run(events: list[Any]) -> list[list[Any]]:
    return [[event] for event in events]


@pytest.mark.parametrize("delivery", [in_order, in_reverse, one_event_per_run])
@pytest.mark.parametrize("case", CASES)
def test_the_published_example_gives_the_printed_table(
    spark: SparkSession, target: Target, case: str, delivery: Any
) -> None:
    options, events, want = CASES[case]
    users = table("rows", ["userId"], **COMMON, **options)
    for done, batch in enumerate(delivery(events)):
        flat.deliver(spark, target, users, [line(event) for event in batch], done)
    assert printed(spark, target, users) == want


def line(event: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("userId", "name", "city", "operation", "sequenceNum"), event, strict=True))


def printed(spark: SparkSession, target: Target, users: Table) -> list[tuple[Any, ...]]:
    columns = ["userId", "name", "city"]
    if users.stored_as_scd_type == 1:
        return flat.rows(flat.shown(spark, target, users).select(*columns))
    bounds = [f"cast(conv(sequence_{side}, 16, 10) AS int)" for side in ("from", "to")]
    return flat.rows(flat.shown(spark, target, users, "t_history").selectExpr(*columns, *bounds))
