"""`gold.pipeline_reads`: what `lakehouse sql` read of tables with `max_staleness`, and how.

Append-only, one row per query and table: a plain read, or a run-time merge, when changes had waited
for longer than promised. The cost of applying changes in the background is in `gold.pipeline_runs`:
the runs of silver whose counts have `bytes`. Both together are the cost of `max_staleness`.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Literal

from gold.status.pipeline import measure_files
from gold.views.catalog import is_named
from lakehouse.config.table import Table
from lakehouse.durations import to_seconds
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views
from lakehouse.storage.writing import DeclaredTable
from silver.contract import PENDING, kept_name, waits_in_log

Kind = Literal["plain_read", "runtime_merge"]

TABLE = "pipeline_reads"
COMMENT = "what was read of tables that promise a freshness, and how"
COLUMNS = (
    ("table", "string", "the table whose view was read"),
    ("kind", "string", "plain_read, or runtime_merge: what waited was merged"),
    ("at", "timestamp", "when the query began"),
    ("duration_ms", "bigint", "how long the whole query took, in milliseconds"),
    ("bytes", "bigint", "size of the data files below the view, as far as it is known"),
)


def record_query(lake: Lake, tables: Sequence[Table], query: str, began: datetime) -> None:
    """Records a query that began then and has ended now; if that fails, nothing is raised.

    Queries that read no table with `max_staleness` are not recorded.
    """
    ended = datetime.now(timezone.utc)
    took = int((ended - began).total_seconds() * 1000)
    promising = [table for table in tables if table.max_staleness is not None]
    views = {table.table: (table.table, f"{table.table}_history") for table in promising}
    read = [t for t in promising if any(is_named(query, view) for view in views[t.table])]
    with suppress(*SPARK_FAILURES, OSError):
        rows = [_measure_read(lake, t) | {"at": began, "duration_ms": took} for t in read]
        DeclaredTable("gold", TABLE, COMMENT, COLUMNS).append(lake, rows)


def _measure_read(lake: Lake, table: Table) -> dict[str, object]:
    """How a view of the table is read now, and the size of what is below it."""
    kept = kept_name(table)
    below = [kept, f"{table.table}_changes"] if _is_late(lake, table) else [kept]
    sizes = [measure_files(lake, each).bytes for each in below]
    kind: Kind = "runtime_merge" if len(below) > 1 else "plain_read"
    return {"table": table.table, "kind": kind, "bytes": sum(size or 0 for size in sizes)}


def _is_late(lake: Lake, table: Table) -> bool:
    """Whether something has waited for longer than the table promises."""
    waits, promised = f"{table.table}{PENDING}", to_seconds(table.max_staleness or 0)
    if not waits_in_log(lake.target, table):
        return False
    if not lake.target.catalog:
        view = load_views(lake.target, "silver").get(waits)
        late = datetime.now(timezone.utc).timestamp() - promised
        return view is not None and (view.since or 0) <= late * 1_000_000
    if not lake.exists("silver", waits):
        return False
    late_rows = f"_since <= now() - INTERVAL {promised} SECONDS"
    return not lake.spark.table(lake.name("silver", waits)).where(late_rows).isEmpty()
