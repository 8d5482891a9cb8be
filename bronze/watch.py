"""Is anything missing? Looks through what bronze gained, and tells which tables lack records."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from bronze.feeds import Feed, feeds
from bronze.holes import filled, jumps, torn_transactions
from bronze.storage import highest_batch, properties, set_properties
from lakehouse.errors import SourceDataLoss
from lakehouse.gaps import Gap, close, is_one, record, still_open
from lakehouse.ledger import Entry
from lakehouse.names import exists
from lakehouse.table import Table
from lakehouse.target import Target

WATCHED = "lakehouse.watched"


def watch(
    spark: SparkSession,
    target: Target,
    tables: Sequence[Table],
    entries: Sequence[Entry],
    run_id: str,
) -> list[Entry]:
    """Look for holes in what the tables' feeds gained since the last look.

    Returns the entries; those of tables with an open gap are failed ones, unless the table says
    `on_data_loss: continue`. What is there is ingested and applied all the same.
    """
    mine = {feed.name: feed for feed in feeds(tables)}
    for feed in mine.values():
        record(spark, target, _found(spark, target, feed), run_id)
    left = _reopened(spark, target, mine)
    strict = {t.table for t in tables if any(s.on_data_loss == "fail" for s in t.feeds)}
    return [_with_loss(entry, left) if entry.table in strict else entry for entry in entries]


def _found(spark: SparkSession, target: Target, feed: Feed) -> list[Gap]:
    """Holes since the last look, which is remembered in the table's properties."""
    if feed.format not in ("debezium", "ydb") or not exists(spark, target, "bronze", feed.name):
        return []
    highest = highest_batch(spark, target, feed)
    looked = min(int(properties(spark, target, feed).get(WATCHED, "0")), highest)
    if looked == highest:
        return []
    look = torn_transactions if feed.format == "debezium" else jumps
    gaps = look(spark, target, feed, looked)
    set_properties(spark, target, feed, {WATCHED: str(highest)})
    return gaps


def _reopened(spark: SparkSession, target: Target, mine: dict[str, Feed]) -> list[Gap]:
    """The open gaps of these feeds, after those that were filled meanwhile are closed."""
    left = [gap for gap in still_open(spark, target) if gap.feed in mine]
    closed = [gap for gap in left if filled(spark, target, mine[gap.feed], gap)]
    if closed:
        close(spark, target, " OR ".join(f"({is_one(gap)})" for gap in closed))
    return [gap for gap in left if gap not in closed]


def _with_loss(entry: Entry, left: Sequence[Gap]) -> Entry:
    gaps = [gap for gap in left if gap.table == entry.table]
    if not gaps:
        return entry
    more = f" (and {len(gaps) - 1} more gaps)" if len(gaps) > 1 else ""
    lost = f"{SourceDataLoss(entry.table, str(gaps[0]) + more).message}"
    message = f"{entry.message}; {lost}" if entry.message else lost
    return entry.model_copy(update={"status": "failed", "message": message})
