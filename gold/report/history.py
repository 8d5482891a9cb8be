"""What the report shows of the past: the runs of some days, and the last results of the rules.

Without a catalog both are read from the tables' files; in one Spark is asked.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from gold.quality.results import TABLE as QUALITY_TABLE
from lakehouse.config.table import Table
from lakehouse.config.target import Layer, Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage.delta_log import read_table_log, read_values
from lakehouse.storage.lake import Lake

Record = Mapping[str, Any]

DAYS, MOST_ENTRIES = 30, 50_000
_ENTRY = (
    *("run_id", "layer", "table", "batch", "started_at", "ended_at", "status", "counts"),
    *("message", "duration_ms"),
)
_RESULT = (
    *("run_id", "at", "table", "checked", "expectation", "columns", "severity", "success"),
    *("unexpected_count", "element_count", "observed", "message", "rule"),
)


class History(NamedTuple):
    """The newest `MOST_ENTRIES` entries of the last `DAYS` days; the last results of each table."""

    entries: Sequence[Entry] = ()
    results: Sequence[Record] = ()


def read_history(target: Target, tables: Sequence[Table]) -> History:
    """The history of these tables, read without Spark."""
    runs = _read_rows(target, "silver", ledger.TABLE, _ENTRY)
    results = _read_rows(target, "gold", QUALITY_TABLE, _RESULT)
    return _build_history(tables, runs, results)


def ask_history(lake: Lake, tables: Sequence[Table]) -> History:
    """The history of these tables, asked of Spark."""
    since = f"ended_at > current_timestamp() - INTERVAL {DAYS} DAYS"
    runs = ledger.read_entries(lake).where(since).select(*_ENTRY)
    newest = runs.orderBy("ended_at", ascending=False).limit(MOST_ENTRIES)
    rows = [row.asDict() for row in newest.collect()]
    results = list[dict[str, Any]]()
    if lake.exists("gold", QUALITY_TABLE):
        kept = lake.spark.table(lake.name("gold", QUALITY_TABLE)).select(*_RESULT)
        results = [row.asDict() for row in kept.collect()]
    return _build_history(tables, rows, results)


def _read_rows(
    target: Target, layer: Layer, table: str, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """All rows of a table of the lake; none where it is missing or cannot be read."""
    log = read_table_log(target, layer, table)
    rows = read_values(log, columns, len(log.files)) if log else None
    return [dict(zip(columns, row, strict=True)) for row in rows or ()]


def _build_history(
    tables: Sequence[Table], runs: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]]
) -> History:
    names = {table.table for table in tables}
    since = datetime.now(timezone.utc) - timedelta(days=DAYS)
    entries = [
        Entry.model_validate(with_zones(row) | {"counts": dict(row["counts"] or {})})
        for row in runs
        if row["table"] in names and row["status"] != "begun"
    ]
    recent = [entry for entry in entries if entry.started_at > since]
    recent.sort(key=lambda entry: entry.ended_at, reverse=True)
    of_gold = [row for row in results if row["checked"] == "gold" and row["table"] in names]
    last = {row["table"]: row["run_id"] for row in sorted(of_gold, key=lambda row: row["at"])}
    newest = [with_zones(row) for row in of_gold if row["run_id"] == last[row["table"]]]
    newest.sort(key=lambda row: (row["table"], row["rule"]))
    return History(recent[:MOST_ENTRIES], newest)


def with_zones(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its times in UTC; Spark's times come without a zone and are UTC."""
    times = {name: value for name, value in row.items() if isinstance(value, datetime)}
    return row | {
        name: time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        for name, time in times.items()
    }
