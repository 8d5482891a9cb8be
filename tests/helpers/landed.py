"""Records in bronze as if they had been ingested, without a stream: for tests of what follows."""

import json
from collections.abc import Sequence
from typing import Any

from bronze import contract as bronze
from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.lake import Lake
from silver import job as silver
from tests.helpers.lakes import quiet
from tests.helpers.records import AT

SCHEMA = ", ".join(f"{column.name} {column.type}" for column in bronze.COLUMNS)


def land(lake: Lake, table: Table, batch: int, records: Sequence[Any]) -> None:
    """Appends one ingest batch: texts as they are, other values as JSON.

    An object with an offset is a whole record, as bronze would find.
    """
    rows = [_row(record, at, batch) for at, record in enumerate(records)]
    name = lake.name("bronze", bronze.feed_name(table, table.feeds[0]))
    lake.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({SCHEMA}) USING delta")
    local_rows(lake.spark, rows, SCHEMA).writeTo(name).append()


def apply(lake: Lake, *tables: Table) -> list[Entry]:
    """Silver alone, over what is in bronze; merges all that waits."""
    return silver.apply_all(lake, list(tables), "run", quiet)


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
