"""Status records and ledger entries of a lake that was never there, for tests of the report."""

from datetime import datetime, timedelta, timezone
from typing import Any

from gold.report.html import Report
from gold.report.tables import ColumnLine, RuleLine, TableLines
from gold.status.trouble import PipelineStatus
from lakehouse.run.ledger import Entry
from lakehouse.run.unread import Unread

NOW = datetime(2026, 3, 4, 12, tzinfo=timezone.utc)

CALM: dict[str, Any] = {
    "rows": 0,
    "watermark": None,
    "lag_seconds": None,
    "staleness_seconds": 0,
    "max_staleness_seconds": None,
    "stale": False,
    "pending_changes": 0,
    "waiting_transactions": 0,
    "dead_letters": {},
    "dead_letters_total": 0,
    "dead_letters_alert": False,
    "stale_keys": 0,
    "stale_keys_since": None,
    "drift": [],
    "gaps": [],
    "order": None,
    "key_parts": [],
    "lacked_keys": [],
    "left_out": [],
    "files": None,
    "bytes": None,
    "deletion_vectors": None,
    "apply_p95_seconds": None,
    "recommended_max_staleness_minutes": None,
    "applied_batch": None,
    "last_run": None,
    "last_failure": None,
    "checked_at": NOW.isoformat(),
    "as_of": NOW.isoformat(),
    "counts": {},
    "accounted": True,
    "verified_through": None,
    "verified_against": None,
    "verified_at": None,
}


def record(table: str, **more: Any) -> dict[str, Any]:
    """A table with which all is well, but for what is named."""
    return {"table": table, **CALM, **more}


def entry(
    table: str, layer: str, minutes: float, counts: dict[str, int], took: float = 1, **more: Any
) -> Entry:
    """What a layer did to a table, so many minutes before NOW."""
    ended = NOW - timedelta(minutes=minutes)
    given = {"run_id": "r", "layer": layer, "table": table, "ended_at": ended, "counts": counts}
    return Entry.model_validate(
        given | {"started_at": ended - timedelta(seconds=took), "duration_ms": took * 1000} | more
    )


DRIFT = {"at": "2026-03-04T10:00:00Z", "run_id": "r", "kind": "add_column", "column": "<risk>"}
GAP = {"found_at": "2026-03-04T11:00:00Z", "kind": "offsets", "from": 7, "to": 12}

IN_TROUBLE = [
    record(
        "orders",
        rows=1_234,
        watermark="2026-03-04T11:59:00Z",
        lag_seconds=60,
        staleness_seconds=700,
        max_staleness_seconds=600,
        stale=True,
        pending_changes=5,
        waiting_transactions=2,
        dead_letters={"no_key": 1, "rule:qty": 41},
        dead_letters_total=42,
        dead_letters_alert=True,
        stale_keys=3,
        drift=[DRIFT],
        gaps=[GAP],
        files=3,
        bytes=2_000_000,
        deletion_vectors=1,
        apply_p95_seconds=4.25,
        recommended_max_staleness_minutes=8,
        last_run="2026-03-04T11:58:00Z",
        last_failure="disk </script><script>alert(1)</script> full",
        counts={"records": 2_000, "inserted": 1_500, "superseded": 458, "dead_letter:no_key": 42},
    ),
    record(
        "a_table_with_a_very_long_name_that_has_to_be_broken_somewhere",
        rows=7,
        watermark="2026-03-04T11:59:00Z",
        lag_seconds=3_601_000,
        last_run="2026-03-04T11:58:00Z",
        verified_at="2026-03-04T11:58:00Z",
    ),
]

ENTRIES = [
    entry("orders", "bronze", 90, {"records": 1_000}),
    entry("orders", "silver", 89, {"records": 1_000, "inserted": 900, "superseded": 100}, took=9),
    entry("orders", "bronze", 30, {"records": 1_000}),
    entry("orders", "silver", 29, {}, status="failed", message="disk full"),
    entry(
        "orders",
        "silver",
        4,
        {"records": 1_000, "inserted": 600, "superseded": 358, "dead_letter:no_key": 42},
    ),
]

RESULTS = [
    {
        "table": "orders",
        "expectation": "expect_column_values_to_be_between",
        "columns": ("qty",),
        "severity": "critical",
        "success": False,
        "unexpected_count": 3,
        "element_count": 1_234,
        "observed": None,
        "message": None,
    }
]

DESCRIBED = TableLines(
    "orders",
    "what customers ordered",
    "id",
    [ColumnLine("id", "bigint", "", "key"), ColumnLine("note", "string", "free <text>", "")],
    [RuleLine("column values to be between (column: qty, min_value: 0)", "critical", False)],
)


def report(records: list[dict[str, Any]], **more: Any) -> Report:
    """A report of these records, and of what is named."""
    status = PipelineStatus(records, more.pop("unread", []), more.pop("notes", []))
    given = {"target": "local", "moment": NOW, "status": status, "entries": []}
    return Report(**(given | more))


TROUBLE = report(
    IN_TROUBLE,
    entries=ENTRIES,
    results=RESULTS,
    tables=[DESCRIBED],
    unread=[Unread("feed_shop", {"shop.carts": 7}, 3)],
)


def large(tables: int, runs: int) -> Report:
    """A report of many tables, each with 20 columns and 5 rules, and of many runs."""
    names = [f"table_{n:03}" for n in range(tables)]
    records = [
        record(
            name,
            rows=1_000 * n,
            max_staleness_seconds=600,
            recommended_max_staleness_minutes=8,
            last_run=NOW.isoformat(),
            counts={"records": 1_000, "inserted": 1_000},
        )
        for n, name in enumerate(names)
    ]
    columns = [ColumnLine(f"column_{n}", "string", f"comment {n}", "") for n in range(20)]
    rules = [RuleLine(f"column values to be rule {n}", "critical", True) for n in range(5)]
    described = [TableLines(name, f"comment of {name}", "id", columns, rules) for name in names]
    counts = {"records": 1_000, "inserted": 990, "updated": 10}
    entries = [
        entry(
            names[n % tables],
            layer,
            4 * (runs - n),
            counts,
            took=1 + n % 900,
            run_id=f"r{n}",
            **({"status": "failed", "message": f"disk {n} full"} if n % 100 == 7 else {}),
        )
        for n in range(runs)
        for layer in ("bronze", "silver")
    ]
    return report(records, entries=entries, tables=described)
