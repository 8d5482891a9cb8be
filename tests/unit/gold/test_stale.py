"""The query of stale keys, asked in SQLite: what it uses of Spark is added there."""

import json
import sqlite3
from operator import itemgetter
from typing import Any

import pytest

from gold.status.stale import render_stale_query
from tests.helpers.builders import table


class MinBy:
    """Spark's `min_by`: the value of the row with the least order."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def step(self, *row: Any) -> None:
        self.rows.append(row)

    def finalize(self) -> Any:
        return min(self.rows, key=itemgetter(1))[0]


def stale_keys(held: int, *letters: int) -> list[tuple[int, str]]:
    """The keys that are stale, with a dead letter, of a row and dead letters at these orders."""
    lake = sqlite3.connect(":memory:")
    lake.create_function("from_json", 2, lambda key, _: json.loads(key)["id"])
    lake.create_aggregate("min_by", 2, MinBy)
    lake.execute("CREATE TABLE t AS SELECT 1 AS id, ? AS _order, FALSE AS _deleted", (held,))
    lake.execute("CREATE TABLE dead (_key, _order, at, reason, position, resolved_at)")
    rows = [('{"id": 1}', order, order, "bad_value", f"f:{order}", None) for order in letters]
    lake.executemany("INSERT INTO dead VALUES (?, ?, ?, ?, ?, ?)", rows)
    of = table("rows", ["id"], sequence_by="seq")
    query = render_stale_query(of, "t", "dead", {"id": "int"}).replace("_own.`id`", "_own")
    return [(key, position) for key, _, _, position in lake.execute(query)]


@pytest.mark.parametrize(
    ("held", "letters", "stale"),
    [
        (1, [3], [(1, "f:3")]),
        (2, [3], [(1, "f:3")]),
        (4, [3], []),
        (4, [3, 6, 5], [(1, "f:5")]),
        (1, [], []),
    ],
)
def test_a_key_is_stale_until_a_change_newer_than_its_dead_letters_is_applied(
    held: int, letters: list[int], stale: list[tuple[int, str]]
) -> None:
    assert stale_keys(held, *letters) == stale
