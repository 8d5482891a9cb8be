"""Databricks' published example of AUTO CDC, and what its tables hold at the end."""

import random
from typing import Any

Row = tuple[Any, ...]
CHANGES: list[Row] = [
    (124, "Raul", "Oaxaca", "INSERT", 1),
    (123, "Isabel", "Monterrey", "INSERT", 1),
    (125, "Mercedes", "Tijuana", "INSERT", 2),
    (126, "Lily", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "Mercedes", "Guadalajara", "UPDATE", 6),
    (125, "Mercedes", "Mexicali", "UPDATE", 5),
    (123, "Isabel", "Chihuahua", "UPDATE", 5),
    (None, None, None, "TRUNCATE", 3),
]
AFTER_TRUNCATE = [(125, "Mercedes", "Guadalajara")]
VERSIONS = [
    (123, "Isabel", "Chihuahua", 5, 6),
    (123, "Isabel", "Monterrey", 1, 5),
    (124, "Raul", "Oaxaca", 1, None),
    (125, "Mercedes", "Guadalajara", 6, None),
    (125, "Mercedes", "Mexicali", 5, 6),
    (125, "Mercedes", "Tijuana", 2, 5),
    (126, "Lily", "Cancun", 2, None),
]
TRACKED = [
    (123, "Isabel", "Chihuahua", 1, 6),
    (124, "Raul", "Oaxaca", 1, None),
    (125, "Mercedes", "Guadalajara", 2, None),
    (126, "Lily", "Cancun", 2, None),
]


def cut(rows: list[Row], chance: random.Random) -> list[list[Row]]:
    """The rows in any order, in two or three batches."""
    shuffled = chance.sample(rows, len(rows))
    first, second = sorted(chance.sample(range(1, len(rows)), 2))
    parts = [shuffled[:first], shuffled[first:second], shuffled[second:]]
    return [part for part in parts if part]
