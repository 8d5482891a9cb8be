"""The change stream of 'CDC to Iceberg: the real-world pattern', with the states it prints."""

import json
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from tests.helpers import lake

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


def live(spark: SparkSession, target: Target) -> list[dict[str, Any]]:
    return sorted(lake.rows(spark, target, "payments"), key=lambda row: str(row["id"]))


def test_the_seeds_stream_gives_its_printed_states(spark: SparkSession, target: Target) -> None:
    first = [
        event("c", "P-4781", {"id": "P-4781", "amt": 1500, "status": "init"}),
        event("c", "P-4782", {"id": "P-4782", "amt": 2400, "status": "init"}),
        event("u", "P-4781", SETTLED),
        event("d", "P-4782"),
        event("c", "P-4783", OTHER),
    ]
    lake.land(target, "payments", "1.jsonl", first)
    lake.run(spark, target, [PAYMENTS])
    assert live(spark, target) == [SETTLED, OTHER]
    lake.land(target, "payments", "2.jsonl", [event("u", "P-4781", REFUNDED)])
    lake.run(spark, target, [PAYMENTS])
    assert live(spark, target) == [REFUNDED, OTHER]
    spark.sql(f"OPTIMIZE {names.table_name(target, 'silver', 'payments')}")
    assert live(spark, target) == [REFUNDED, OTHER]
