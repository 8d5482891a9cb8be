"""`bronze.T` of a table that shares a feed or has several: a view of the table's own records."""

from collections.abc import Collection, Sequence

from bronze.contract import COLUMNS, feed_name, topics_of_source
from lakehouse.config.source import Source
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import describe_failure, join_failures
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote, table_name
from lakehouse.storage.views import View, publish_views


def publish_own_views(lake: Lake, tables: Sequence[Table], entries: Sequence[Entry]) -> list[Entry]:
    """Publishes the views of the tables that have new records.

    Returns:
        The entries, failed where the view could not be published.
    """
    by_name = {table.table: table for table in tables}
    return [_publish_view(lake, by_name[entry.table], entry) for entry in entries]


def _publish_view(lake: Lake, table: Table, entry: Entry) -> Entry:
    feeds = {feed_name(table, source) for source in table.feeds}
    if feeds == {table.table} or not entry.counts.get("records"):
        return entry
    try:
        there = {feed for feed in feeds if lake.exists("bronze", feed)}
        publish_views(lake, "bronze", [build_view(lake.target, table, there)])
    except (*SPARK_FAILURES, OSError) as failure:
        failed = describe_failure(failure)
        why = join_failures(message for message in (entry.message, failed) if message)
        collided = entry.conflict or failed.is_conflict
        changes = {"status": "failed", "message": why, "conflict": collided}
        return entry.model_copy(update=changes)
    return entry


def build_view(target: Target, table: Table, feeds: Collection[str]) -> View:
    """The view of the table's own records in these feeds."""
    parts = [
        _own_records(table_name(target, "bronze", feed_name(table, source)), source)
        for source in table.feeds
        if feed_name(table, source) in feeds
    ]
    columns = {column.name: column.comment for column in COLUMNS}
    comment = f"records of {table.table} as they arrived"
    return View(table.table, dict(columns), comment, (), " UNION ALL ".join(parts))


def _own_records(bronze: str, source: Source) -> str:
    columns = ", ".join(quote(column.name) for column in COLUMNS)
    topics = ", ".join(literal(topic) for topic in topics_of_source(source))
    return f"SELECT {columns} FROM {bronze}" + (f" WHERE _topic IN ({topics})" if topics else "")
