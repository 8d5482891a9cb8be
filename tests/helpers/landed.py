"""Records in bronze as if they had been ingested, without a stream: for tests of what follows."""

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from bronze import contract as bronze
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from silver import job as silver
from tests.helpers.lake import quiet
from tests.helpers.records import AT

SCHEMA = ", ".join(f"{column.name} {column.type}" for column in bronze.COLUMNS)


def land(
    spark: SparkSession, target: Target, table: Table, batch: int, records: Sequence[Any]
) -> None:
    """Appends one ingest batch: texts as they are, other values as JSON.

    An object with an offset is a whole record, as bronze would find.
    """
    rows = [_row(record, at, batch) for at, record in enumerate(records)]
    name = names.table_name(target, "bronze", bronze.feed_name(table, table.feeds[0]))
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({SCHEMA}) USING delta")
    local_rows(spark, rows, SCHEMA).writeTo(name).append()


def apply(spark: SparkSession, target: Target, *tables: Table) -> list[Entry]:
    """Silver alone, over what is in bronze; merges all that waits."""
    return silver.apply_all(spark, target, list(tables), "run", quiet)


def failures(entries: Sequence[Entry]) -> list[str | None]:
    return [entry.message for entry in entries if entry.status == "failed"]


def _row(record: Any, at: int, batch: int) -> dict[str, Any]:
    whole = isinstance(record, dict) and "offset" in record
    origin: dict[str, Any] = {}
    if whole:
        origin = {f"_{name}": record.get(name) for name in ("topic", "partition", "offset")}
        origin |= {f"_{name}": _text(record.get(name)) for name in ("key", "headers")}
    return origin | {
        "_raw": record if isinstance(record, str) else _text(record),
        "_file": f"/landing/{batch}.jsonl",
        "_line": at,
        "_whole": whole,
        "_batch": batch,
        "_arrived_at": AT,
        "_arrival": f"{batch:08X}{0:06X}{0:010X}{at:08X}",
    }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
