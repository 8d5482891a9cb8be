"""Status records of tables, for `status`, the report and the demo."""

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_lakehouse.cli.silence import warnings_of, without_yaml
from lakehouse.config.table import Table
from lakehouse.storage.lake import AskedLake

if TYPE_CHECKING:
    from gold.status.trouble import PipelineStatus
    from lakehouse.run.unread import Unread


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

    asked = [of(lake, tables) for of in (unreadable_files, waiting_deletes)]
    warnings = [warnings_of(lake.target, tables), *asked]
    unread = unread_of(lake, everything)
    statuses = table_status.status_of(lake, tables)
    feeds = {t.table: {feed_name(t, source) for source in t.feeds} for t in tables}
    read = set[str]().union(*feeds.values())
    unread = [each for each in unread if each.feed in read]
    records = [
        record
        | {"warnings": _texts_of(record["table"], warnings)}
        | _unread_of(unread, feeds[record["table"]])
        for record in statuses
    ]
    return PipelineStatus(records, unread, without_yaml(lake.target, everything))


def _texts_of(table: str, warnings: Sequence[Mapping[str, Sequence[str]]]) -> list[str]:
    return [text for each in warnings for text in each.get(table, ())]


def _unread_of(unread: "Sequence[Unread]", feeds: Container[str]) -> dict[str, Any]:
    """What no table reads of a table's feeds, as a part of its status record."""
    of_table = [each for each in unread if each.feed in feeds]
    topics = {topic: count for each in of_table for topic, count in each.topics.items()}
    return {"unread_topics": topics, "unread_lines": sum(each.lines for each in of_table)}
