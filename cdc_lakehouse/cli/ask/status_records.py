"""Status records of tables, for `status`, the report and the demo."""

from typing import TYPE_CHECKING

from cdc_lakehouse.cli.silence import warnings_of, without_yaml
from lakehouse.config.table import Table
from lakehouse.storage.lake import AskedLake

if TYPE_CHECKING:
    from gold.status.trouble import PipelineStatus


def ask_status(lake: AskedLake, tables: list[Table], everything: list[Table]) -> "PipelineStatus":
    """The status records of the tables, unread topics and lines, and tables without YAML.

    `everything` are all tables that are configured, of which `tables` may be some. A record is one
    of `gold.status.table_status`, with its `warnings`, and with what no table reads of its feeds:
    `unread_topics` with their records, and `unread_lines`.
    """
    from bronze.contract import feed_name
    from bronze.files.unreadable import unreadable_files
    from gold.status import table_status
    from gold.status.trouble import PipelineStatus
    from gold.status.unread import unread_of, waiting_deletes

    unreadable, waiting = unreadable_files(lake, tables), waiting_deletes(lake, tables)
    warnings = [warnings_of(lake.target, tables), unreadable, waiting]
    feeds = {t.table: {feed_name(t, source) for source in t.feeds} for t in tables}
    read = set[str]().union(*feeds.values())
    unread = [each for each in unread_of(lake, everything) if each.feed in read]
    records = []
    for record in table_status.status_of(lake, tables):
        table = record["table"]
        own = [each for each in unread if each.feed in feeds[table]]
        more = {
            "warnings": [text for of_kind in warnings for text in of_kind.get(table, ())],
            "unread_topics": {topic: n for each in own for topic, n in each.topics.items()},
            "unread_lines": sum(each.lines for each in own),
        }
        records.append(record | more)
    return PipelineStatus(records, unread, without_yaml(lake.target, everything))
