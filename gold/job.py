"""Gold's job: publish the views of every table that silver holds, and of the pipeline itself."""

from collections.abc import Callable
from datetime import datetime, timezone

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from gold import catalog, extract_views, stale, status, views
from gold.catalog import open_catalog
from gold.sensitive import masked
from gold.views import View
from lakehouse import names
from lakehouse.errors import LakehouseError, in_short
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Target

__all__ = ["open_catalog", "publish"]

Progress = Callable[[str], None]


def publish(
    spark: SparkSession,
    target: Target,
    tables: list[Table],
    run_id: str,
    progress: Progress,
    configured: list[Table] | None = None,
) -> list[Entry]:
    """Publishes every table; one ledger entry each, and a failure stops no other.

    `gold.pipeline_status` shows all that are `configured`, of which `tables` may be a part.
    """
    entries, shown = [], [*status.views(spark, target, configured or tables)]
    for table in tables:
        progress(f"gold {table.table}")
        started, message = datetime.now(timezone.utc), None
        try:
            shown += table_views(spark, target, table)
        except (PySparkException, LakehouseError, OSError) as failure:
            message = in_short(failure)
        entries.append(_entry(run_id, table, started, message))
    catalog.publish(spark, target, "gold", shown)
    return entries


def table_views(spark: SparkSession, target: Target, table: Table) -> list[View]:
    """The views of one table; none before silver holds it."""
    extracts = extract_views.of(spark, target, table)
    if table.stored_as_scd_type == 2:
        kinds, kept = (views.current, views.history), f"{table.table}_history"
        return _without_stale(
            spark, target, table, [*_of(spark, target, table, kept, kinds), *extracts]
        )
    only = views.current if table.keys else views.keyless
    shown = _of(spark, target, table, table.table, (only,))
    return _without_stale(spark, target, table, [*shown, *extracts])


def _without_stale(
    spark: SparkSession, target: Target, table: Table, shown: list[View]
) -> list[View]:
    """The same views; where stale keys are to be hidden, current rows without them."""
    keys = stale.of(spark, target, table) if table.on_stale_key == "hide" else None
    if keys is None:
        return shown
    return [stale.hidden(v, keys) if v.name == table.table else v for v in shown]


def _of(
    spark: SparkSession,
    target: Target,
    table: Table,
    kept: str,
    kinds: tuple[Callable[[Table, str, list[str]], View], ...],
) -> list[View]:
    if not names.exists(spark, target, "silver", kept):
        return []
    source = names.name(target, "silver", kept)
    columns = [c for c in spark.table(source).columns if not c.startswith("_")]
    source, columns = masked(table, source, columns, target.sensitive)
    return [kind(table, source, columns) for kind in kinds]


def _entry(run_id: str, table: Table, started: datetime, message: str | None) -> Entry:
    ended = datetime.now(timezone.utc)
    return Entry(
        run_id=run_id,
        layer="gold",
        table=table.table,
        started_at=started,
        ended_at=ended,
        status="ok" if message is None else "failed",
        message=message,
        duration_ms=int((ended - started).total_seconds() * 1000),
    )
