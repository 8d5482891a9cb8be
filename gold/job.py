"""Gold's job: publish the views of every table that silver holds, and of the pipeline itself."""

from collections.abc import Callable
from datetime import datetime, timezone

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from gold import catalog, views
from gold.catalog import open_catalog
from gold.views import View
from lakehouse import ledger, names
from lakehouse.errors import LakehouseError, in_short
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Target

__all__ = ["open_catalog", "publish"]

Progress = Callable[[str], None]


def publish(
    spark: SparkSession, target: Target, tables: list[Table], run_id: str, progress: Progress
) -> list[Entry]:
    """Publishes every table; one ledger entry each, and a failure stops no other."""
    entries, shown = [], [*pipeline_views(spark, target)]
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
    if table.stored_as_scd_type == 2:
        return _of(spark, target, table, f"{table.table}_history", (views.current, views.history))
    return _of(spark, target, table, table.table, (views.current if table.keys else views.keyless,))


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
    return [kind(table, source, columns) for kind in kinds]


def pipeline_views(spark: SparkSession, target: Target) -> list[View]:
    """`gold.pipeline_runs`: what every run did to every table in every layer."""
    if not names.exists(spark, target, "silver", ledger.TABLE):
        return []
    source = names.name(target, "silver", ledger.TABLE)
    shown: dict[str, str | None] = {column: text for column, _, text in ledger.COLUMNS}
    query = f"SELECT {', '.join(names.quote(c) for c in shown)} FROM {source}"
    comment = "what every run did to every table"
    return [View("pipeline_runs", shown, comment, ("run_id", "layer", "table"), query)]


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
