"""Is anything missing? Looks through what bronze gained, and tells which tables lack records."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.feed_state import FeedState
from bronze.feeds import Feed, feeds
from bronze.loss.holes import filled, jumps, torn_transactions
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.gaps import Gap, close, is_one, record, still_open, strict, with_loss
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Arrived, Memory
from lakehouse.spark.failures import in_short
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.words import counted

_NUMBERED = ("debezium", "ydb")


def watch(
    spark: SparkSession,
    target: Target,
    tables: Sequence[Table],
    entries: Sequence[Entry],
    memory: Memory,
    tell: Callable[[str], None],
) -> list[Entry]:
    """Look for holes in what the tables' feeds gained since the last look.

    Returns the entries, whose `positions` tell how far each feed has been looked through; those of
    tables with an open gap are failed ones, unless the table says `on_data_loss: continue`. What is
    there is ingested and applied all the same. A feed that failed before, which `memory` does not
    know, is looked at when it works again; one that cannot be read fails its own tables only.
    `tell` hears of transactions of which the newest records bring a part.
    """
    mine = {feed.name: feed for feed in feeds(tables)}
    known = memory.feeds
    numbered = [f for f in mine.values() if f.format in _NUMBERED and f.name in known]
    looked = _looked(spark, target, numbered, known)
    reached: dict[str, int] = {}
    unread: dict[str, str] = {}
    for feed in numbered:
        since, came = looked.get(feed.name, 0), known[feed.name]
        try:
            gaps = _found(spark, target, feed, since, came, tell)
            record(spark, target, gaps, entries[0].run_id)
        except SPARK_FAILURES as failure:
            unread[feed.name] = in_short(failure)
            continue
        reached[feed.name] = came.newest
        known[feed.name] = came._replace(looked_through=came.newest)
    left, fails = _reopened(spark, target, mine, reached), strict(tables)
    told = [_at(_with_failure(entry, mine, unread), mine, reached) for entry in entries]
    return [with_loss(entry, left) if entry.table in fails else entry for entry in told]


def _looked(
    spark: SparkSession, target: Target, asked: Sequence[Feed], known: Mapping[str, Arrived]
) -> dict[str, int]:
    """Up to which batch each feed has been looked through, from the memory or the ledger."""
    found = {feed.name: known[feed.name].looked_through for feed in asked if feed.name in known}
    looked = {name: batch for name, batch in found.items() if batch is not None}
    if len(looked) == len(asked):
        return looked
    done = ledger.read(spark, target).where("layer = 'bronze'").select(F.explode("positions"))
    rows = done.groupBy("key").agg(F.max("value").alias("value")).collect()
    return {row["key"]: row["value"] for row in rows} | looked


def _found(
    spark: SparkSession,
    target: Target,
    feed: Feed,
    since: int,
    came: Arrived,
    tell: Callable[[str], None],
) -> list[Gap]:
    """Holes since the last look; one that went further was at a table that has been lost since.

    The last batch of that look counts too: transactions in it may have waited for the next.
    """
    if since == came.newest:
        return []
    after = since if since < came.newest else 0
    if feed.format != "debezium":
        return jumps(spark, target, feed, after)
    state = came.checkpoint if isinstance(came.checkpoint, FeedState) else None
    orders = state.orders if state is not None and after == since else None
    looked = range(after, came.newest + 1)
    gaps, waiting = torn_transactions(spark, target, feed, looked, orders)
    if waiting:
        topic, transaction = next(iter(waiting))
        tell(
            f"{feed.name}: {counted(len(waiting), 'transaction')} not whole yet, such as"
            f" {transaction} of {topic or feed.name}: the next records may bring the rest"
        )
    if state is not None:
        state.orders = waiting
    return gaps


def _at(entry: Entry, feeds: Mapping[str, Feed], reached: Mapping[str, int]) -> Entry:
    own = {name: batch for name, batch in reached.items() if entry.table in feeds[name].tables}
    return entry.model_copy(update={"positions": own})


def _with_failure(entry: Entry, feeds: Mapping[str, Feed], unread: Mapping[str, str]) -> Entry:
    own = [message for name, message in unread.items() if entry.table in feeds[name].tables]
    return entry.model_copy(update={"status": "failed", "message": own[0]}) if own else entry


def _reopened(
    spark: SparkSession, target: Target, mine: Mapping[str, Feed], reached: Mapping[str, int]
) -> list[Gap]:
    """The open gaps that bronze finds, after those that were filled meanwhile are closed."""
    own = (gap for gap in still_open(spark, target) if gap.kind != "positions")
    left = [gap for gap in own if gap.feed in mine]
    closed = [g for g in left if g.feed in reached and filled(spark, target, mine[g.feed], g)]
    if closed:
        close(spark, target, " OR ".join(f"({is_one(gap)})" for gap in closed))
    return [gap for gap in left if gap not in closed]
