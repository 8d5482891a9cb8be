"""Databricks' published example of AUTO CDC, users 123 to 126, with the tables that it prints."""

import random
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Example(NamedTuple):
    """What a flow is told beside `COMMON`, what arrives, and what the target has then, in order."""

    options: dict[str, Any]
    changes: list[Row]
    rows: list[Row]


COLUMNS = "userId INT, name STRING, city STRING, operation STRING, sequenceNum INT"
COMMON: dict[str, Any] = {
    "apply_as_deletes": "operation = 'DELETE'",
    "except_column_list": ["operation", "sequenceNum"],
}
CHANGES: list[Row] = [
    (124, "Raul", "Oaxaca", "INSERT", 1),
    (123, "Isabel", "Monterrey", "INSERT", 1),
    (125, "Mercedes", "Tijuana", "INSERT", 2),
    (126, "Lily", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "Mercedes", "Guadalajara", "UPDATE", 6),
    (125, "Mercedes", "Mexicali", "UPDATE", 5),
    (123, "Isabel", "Chihuahua", "UPDATE", 5),
]
EXAMPLES = {
    "SCD 1": Example(
        {},
        CHANGES,
        [(124, "Raul", "Oaxaca"), (125, "Mercedes", "Guadalajara"), (126, "Lily", "Cancun")],
    ),
    "SCD 1 with truncate": Example(
        {"apply_as_truncates": "operation = 'TRUNCATE'"},
        [*CHANGES, (None, None, None, "TRUNCATE", 3)],
        [(125, "Mercedes", "Guadalajara")],
    ),
    "SCD 2": Example(
        {"stored_as_scd_type": 2},
        CHANGES,
        [
            (123, "Isabel", "Chihuahua", 5, 6),
            (123, "Isabel", "Monterrey", 1, 5),
            (124, "Raul", "Oaxaca", 1, None),
            (125, "Mercedes", "Guadalajara", 6, None),
            (125, "Mercedes", "Mexicali", 5, 6),
            (125, "Mercedes", "Tijuana", 2, 5),
            (126, "Lily", "Cancun", 2, None),
        ],
    ),
    "SCD 2 but for the city": Example(
        {"stored_as_scd_type": 2, "track_history_except_column_list": ["city"]},
        CHANGES,
        [
            (123, "Isabel", "Chihuahua", 1, 6),
            (124, "Raul", "Oaxaca", 1, None),
            (125, "Mercedes", "Guadalajara", 2, None),
            (126, "Lily", "Cancun", 2, None),
        ],
    ),
}
MIDNIGHT = datetime(2024, 1, 1, tzinfo=timezone.utc)
NOON = MIDNIGHT + timedelta(hours=12)
SNAPSHOTS: dict[datetime, list[Row]] = {
    MIDNIGHT: [(1, "a1"), (2, "a2")],
    NOON: [(2, "b2"), (3, "a3")],
}
"""Databricks' published example of AUTO CDC from snapshots: whole tables of key and value."""
FROM_SNAPSHOTS: dict[int, list[Row]] = {
    1: [(2, "b2"), (3, "a3")],
    2: [
        (1, "a1", MIDNIGHT, NOON),
        (2, "a2", MIDNIGHT, NOON),
        (2, "b2", NOON, None),
        (3, "a3", NOON, None),
    ],
}
"""What a target of each SCD type has of `SNAPSHOTS`, in order."""


def cut(rows: list[Row], chance: random.Random) -> list[list[Row]]:
    """The rows in any order, in two or three batches."""
    shuffled = chance.sample(rows, len(rows))
    first, second = sorted(chance.sample(range(1, len(rows)), 2))
    parts = [shuffled[:first], shuffled[first:second], shuffled[second:]]
    return [part for part in parts if part]
