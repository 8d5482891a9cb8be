"""The queries of the guide *Ask a history* answer what the guide says."""

import json
import re
from pathlib import Path

import pytest

from cdc_lakehouse.cli.ask.queries import print_answer
from gold import job as gold
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import publish_views
from tests.helpers import flat
from tests.helpers.builders import table

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "history-queries.md"
CUSTOMERS = [
    {"id": 7, "at": "2026-01-01T00:00:00Z", "tier": "bronze"},
    {"id": 7, "at": "2026-01-10T00:00:00Z", "tier": "silver"},
    {"id": 7, "at": "2026-01-20T00:00:00Z", "tier": "gold"},
    {"id": 8, "at": "2026-01-10T12:00:00Z", "tier": "silver"},
    {"id": 8, "at": "2026-01-21T12:00:00Z", "op": "d"},
]
ORDERS = [
    {"id": 1, "customer": 7, "total": 5, "placed_at": "2026-01-05T00:00:00Z", "at": 1},
    {"id": 2, "customer": 7, "total": 6, "placed_at": "2026-01-10T00:00:00Z", "at": 2},
    {"id": 3, "customer": 8, "total": 7, "placed_at": "2026-01-02T00:00:00Z", "at": 3},
]
ANSWERS = {
    "The table as it was": [(7, "silver"), (8, "silver")],
    "Each order with the customer of its day": [
        (1, 5, "bronze"), (2, 6, "silver"), (3, 7, None)
    ],
    "What changed between two times": [(7, "bronze", "gold")],
    "What each change was": [
        (7, "2026-01-01", None, "bronze"),
        (7, "2026-01-10", "bronze", "silver"),
        (7, "2026-01-20", "silver", "gold"),
        (8, "2026-01-10", None, "silver"),
    ],
    "How long each state lasted": [("bronze", 9), ("gold", 12), ("silver", 21)],
    "Deleted rows": [(8, "2026-01-21")],
    "One row per day": [
        ("2026-01-09", 7, "bronze"),
        ("2026-01-10", 7, "silver"), ("2026-01-10", 8, "silver"),
        ("2026-01-11", 7, "silver"), ("2026-01-11", 8, "silver"),
    ],
}  # fmt: skip


@pytest.mark.slow
def test_each_query_of_the_guide_answers(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    customers = table(
        "rows", ["id"], columns={"id": "int", "at": "timestamp", "tier": "string"},
        sequence_by="at", apply_as_deletes="op = 'd'", stored_as_scd_type=2,
        except_column_list=["op", "at"],
    ).model_copy(update={"table": "customers"})  # fmt: skip
    orders = table(
        "rows", ["id"], sequence_by="at",
        columns={"id": "int", "customer": "int", "total": "int", "placed_at": "timestamp"},
    ).model_copy(update={"table": "orders"})  # fmt: skip
    views = []
    for one, lines in ((customers, CUSTOMERS), (orders, ORDERS)):
        flat.deliver(lake, one, lines)
        views += gold.table_views(lake, one)
    publish_views(lake, "gold", views)
    blocks = re.findall(r"^## (.+?)$.*?```sql\n(.*?)```", GUIDE.read_text(), re.M | re.S)
    found = {}
    for title, query in blocks:
        print_answer(lake, query, "json")
        lines = capsys.readouterr().out.splitlines()
        found[title] = [
            tuple(v[:10] if isinstance(v, str) else v for v in json.loads(line).values())
            for line in lines
        ]
    assert found == ANSWERS
