"""A tombstone that is purged, and what arrives for its key afterwards."""

from typing import Any

import pytest

from cdc_lakehouse.cli.work.maintain import tend_tables
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from silver.maintenance import tombstones
from tests.helpers.arrivals import applied, arrive, raw, silver
from tests.helpers.lakes import quiet

pytestmark = pytest.mark.slow

ORDERS = Table.model_validate(
    {
        "table": "t",
        "source": {"format": "rows", "path": "t", "time_column": "at"},
        "keys": ["id"],
        "columns": {"id": "int", "v": "string", "at": "timestamp", "seq": "bigint", "op": "string"},
        "sequence_by": "seq",
        "apply_as_deletes": "op = 'd'",
        "tombstone_retention": "1 day",
    }
)
ACCOUNTED = ("records", "incomplete", "key_changes")


def change(key: int, seq: int, day: int, op: str = "u") -> dict[str, Any]:
    return {"id": key, "v": f"v{seq}", "seq": seq, "at": f"2026-01-{day:02d}T00:00:00Z", "op": op}


def test_a_change_older_than_a_purged_tombstone_is_a_dead_letter_and_no_row(lake: Lake) -> None:
    arrive(lake, ORDERS, [change(1, 10, 1), change(1, 12, 2, "d"), change(2, 5, 9)], 1)
    applied(lake, ORDERS)
    told: list[str] = []
    tend_tables(lake, [ORDERS], True, told.append, shared=False)
    assert [row["id"] for row in silver(lake, "t", "id")] == [1, 2]
    tend_tables(lake, [ORDERS], False, told.append, shared=False)
    assert [row["id"] for row in silver(lake, "t", "id")] == [2]
    assert "would be purged: 1 of 2 rows" in told[0]
    late = [change(1, 11, 1), change(2, 4, 1), change(3, 20, 9)]
    arrive(lake, ORDERS, late, 2)
    counts = applied(lake, ORDERS).counts
    assert counts["dead_letter:too_late"] == 1
    assert sum(n for name, n in counts.items() if name not in ACCOUNTED) == counts["records"] == 3
    assert [(r["id"], r["v"]) for r in silver(lake, "t", "id")] == [(2, "v5"), (3, "v20")]
    (letter,) = silver(lake, "t_dead_letters", "_arrival")
    assert (letter["reason"], letter["_key"], letter["raw"]) == (
        "too_late",
        '{"id":1}',
        raw(late[0]),
    )
    found = tombstones.survey_tombstones(lake, ORDERS)
    assert found is not None and found.horizon is not None and found.watermark is not None
    eight_days = 8 * 86_400 * 1_000_000
    assert (found.lateness, found.watermark - found.horizon) == (eight_days, eight_days)


def test_a_table_that_keeps_no_tombstones_is_left_alone(lake: Lake) -> None:
    history = ORDERS.model_copy(update={"stored_as_scd_type": 2})
    assert tombstones.survey_tombstones(lake, history) is None
    assert tend_tables(lake, [history], False, quiet, shared=False)[0].counts == {}
