"""Searches the new batches of bronze for missing changes, and reports the tables that lack them."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import functions as F

from bronze.feed_state import FeedState
from bronze.feeds import Feed, list_feeds
from bronze.loss.holes import find_jumps, find_torn_transactions, is_filled
from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.gaps import Gap, add_gaps, close_gaps, gap_sql, list_strict, open_gaps, with_loss
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Arrived, Memory
from lakehouse.spark.failures import describe_failure
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake
from lakehouse.words import render_count

_NUMBERED = ("debezium", "ydb")


def watch_for_loss(
    lake: Lake,
    tables: Sequence[Table],
    entries: Sequence[Entry],
    memory: Memory,
    tell: Callable[[str], None],
) -> list[Entry]:
    """Searches the batches of the tables' feeds since the last search for missing changes.

    Returns the entries with the last searched batch of each feed as `positions`. Entries of tables
    with an open gap are failed, unless the table has `on_data_loss: continue`; other records are
    still ingested and applied. A feed that failed in this run is not in `memory` and is searched
    later; one that cannot be read fails its own tables only. `tell` gets messages about
    transactions that are incomplete so far.
    """
    mine = {feed.name: feed for feed in list_feeds(tables)}
    arrivals = memory.feeds
    numbered = [f for f in mine.values() if f.format in _NUMBERED and f.name in arrivals]
    looked = _read_progress(lake, numbered, arrivals)
    reached: dict[str, int] = {}
    unread: dict[str, str] = {}
    for feed in numbered:
        since, came = looked.get(feed.name, 0), arrivals[feed.name]
        try:
            gaps = _find_gaps(lake, feed, since, came, tell)
            add_gaps(lake, gaps, entries[0].run_id)
        except SPARK_FAILURES as failure:
            unread[feed.name] = describe_failure(failure)
            continue
        reached[feed.name] = came.newest
        arrivals[feed.name] = came._replace(looked_through=came.newest)
    left, fails = _close_filled_gaps(lake, mine, reached), list_strict(tables)
    done = []
    for entry in entries:
        feeds = [name for name, feed in mine.items() if entry.table in feed.tables]
        done.append(_with_positions(entry, feeds, reached, unread))
    return [with_loss(entry, left) if entry.table in fails else entry for entry in done]


def _read_progress(
    lake: Lake, asked: Sequence[Feed], arrivals: Mapping[str, Arrived]
) -> dict[str, int]:
    """The last searched batch of each feed, from the memory or the ledger."""
    progress = {f.name: arrivals[f.name].looked_through for f in asked if f.name in arrivals}
    looked = {name: batch for name, batch in progress.items() if batch is not None}
    if len(looked) == len(asked):
        return looked
    entries = ledger.read_entries(lake).where("layer = 'bronze'")
    rows = (
        entries.select(F.explode("positions"))
        .groupBy("key")
        .agg(F.max("value").alias("value"))
        .collect()
    )
    return {row["key"]: row["value"] for row in rows} | looked


def _find_gaps(
    lake: Lake, feed: Feed, since: int, came: Arrived, tell: Callable[[str], None]
) -> list[Gap]:
    """Gaps since batch `since`; if that is beyond the newest, the table was replaced: all of it.

    Batch `since` is searched again: its transactions may have been incomplete.
    """
    if since == came.newest:
        return []
    after = since if since < came.newest else 0
    if feed.format != "debezium":
        return find_jumps(lake, feed, after)
    state = came.checkpoint if isinstance(came.checkpoint, FeedState) else None
    orders = state.orders if state is not None and after == since else None
    looked = range(after, came.newest + 1)
    gaps, waiting = find_torn_transactions(lake, feed, looked, orders)
    if waiting:
        topic, transaction = next(iter(waiting))
        tell(
            f"{feed.name}: {render_count(len(waiting), 'transaction')} not whole yet, such as"
            f" {transaction} of {topic or feed.name}: the next records may bring the rest"
        )
    if state is not None:
        state.orders = waiting
    return gaps


def _with_positions(
    entry: Entry, feeds: Sequence[str], reached: Mapping[str, int], unread: Mapping[str, str]
) -> Entry:
    """The entry with how far its table's feeds were looked through; failed if one was not read."""
    changed: dict[str, object] = {"positions": {n: reached[n] for n in feeds if n in reached}}
    messages = [unread[name] for name in feeds if name in unread]
    changed |= {"status": "failed", "message": messages[0]} if messages else {}
    return entry.model_copy(update=changed)


def _close_filled_gaps(
    lake: Lake, mine: Mapping[str, Feed], reached: Mapping[str, int]
) -> list[Gap]:
    """Closes the gaps that are filled by now; returns the others that are open."""
    left = [g for g in open_gaps(lake) if g.kind != "positions" and g.feed in mine]
    closed = [g for g in left if g.feed in reached and is_filled(lake, mine[g.feed], g)]
    if closed:
        close_gaps(lake, " OR ".join(f"({gap_sql(gap)})" for gap in closed))
    return [gap for gap in left if gap not in closed]
