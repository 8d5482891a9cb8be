"""The change stream of 'CDC to Iceberg: the real-world pattern', with the states it prints."""

import json
from typing import Any

import pytest

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers import lakes

PAYMENTS = Table.model_validate(
    {
        "table": "payments",
        "source": {"format": "debezium", "path": "payments"},
        "keys": ["id"],
        "columns": {"id": "string", "amt": "bigint", "status": "string"},
    }
)
SETTLED = {"id": "P-4781", "amt": 1500, "status": "settled"}
REFUNDED = {"id": "P-4781", "amt": 1500, "status": "refunded"}
OTHER = {"id": "P-4783", "amt": 9999, "status": "init"}


def event(op: str, key: str, after: dict[str, Any] | None = None) -> str:
    return json.dumps({"op": op, "pk": key, "after": after})


def live(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lakes.rows(lake, "payments"), key=lambda row: str(row["id"]))


@pytest.mark.slow
def test_the_seeds_stream_gives_its_printed_states(lake: Lake) -> None:
    first = [
        event("c", "P-4781", {"id": "P-4781", "amt": 1500, "status": "init"}),
        event("c", "P-4782", {"id": "P-4782", "amt": 2400, "status": "init"}),
        event("u", "P-4781", SETTLED),
        event("d", "P-4782"),
        event("c", "P-4783", OTHER),
    ]
    lakes.land(lake.target, "payments", "1.jsonl", first)
    lakes.run(lake, [PAYMENTS])
    assert live(lake) == [SETTLED, OTHER]
    lakes.land(lake.target, "payments", "2.jsonl", [event("u", "P-4781", REFUNDED)])
    lakes.run(lake, [PAYMENTS])
    assert live(lake) == [REFUNDED, OTHER]
    lake.spark.sql(f"OPTIMIZE {lake.name('silver', 'payments')}")
    assert live(lake) == [REFUNDED, OTHER]
