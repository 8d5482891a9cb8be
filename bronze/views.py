"""`bronze.T` of a table that shares a feed or has several: a view of the table's own records."""

from collections.abc import Collection, Sequence

from bronze.contract import COLUMNS, feed_name, topics_of_source
from lakehouse.config.source import Source
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import FailureText, describe_failure, join_failures
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote, table_name
from lakehouse.storage.views import View, load_views, publish_views


def publish_own_views(lake: Lake, tables: Sequence[Table], entries: Sequence[Entry]) -> list[Entry]:
    """Publishes the views of tables with new records; without a catalog also those not there yet.

    Returns:
        The entries, failed where the view could not be published.
    """
    is_listed = not lake.target.catalog
    known_views = load_views(lake.target, "bronze") if is_listed else {}
    with_news = {entry.table for entry in entries if entry.counts.get("records")}
    views = []
    for table in tables:
        feeds = {feed_name(table, source) for source in table.feeds}
        is_due = table.table in with_news or (is_listed and table.table not in known_views)
        there = {name for name in feeds if is_due and lake.exists("bronze", name)}
        if there and feeds != {table.table}:
            views.append(build_view(lake.target, table, there))
    failures: dict[str, FailureText] = {}
    for some in [views] if is_listed and views else [[view] for view in views]:
        try:
            publish_views(lake, "bronze", some)
        except (*SPARK_FAILURES, OSError) as failure:
            failures |= dict.fromkeys([view.name for view in some], describe_failure(failure))
    return [_add_failure(entry, failures.get(entry.table)) for entry in entries]


def _add_failure(entry: Entry, failed: FailureText | None) -> Entry:
    if failed is None:
        return entry
    why = join_failures(message for message in (entry.message, failed) if message)
    collided = entry.conflict or failed.is_conflict
    return entry.model_copy(update={"status": "failed", "message": why, "conflict": collided})


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
