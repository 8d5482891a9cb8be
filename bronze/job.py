"""Bronze: every feed is read once, and its new records are appended as they arrived."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

import pyarrow as pa

from bronze.delta import ingest_delta
from bronze.feed_state import FeedState, read_state
from bronze.feeds import TRANSACTIONS, Feed, list_feeds
from bronze.files.ingest import ingest_files, recover_files
from bronze.kafka.ingest import ReadingPlan, fetch_few, ingest_kafka, plan_feed, recover_offsets
from bronze.kafka.topics import ask_brokers, topics_of
from bronze.outcome import Outcome, build_entries, build_unread_entries
from bronze.storage import News, prepare_table, read_properties, set_properties
from bronze.views import publish_own_views
from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Arrived, Memory
from lakehouse.run.newest import newest_batches
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake
from lakehouse.words import count_off

READ_ONCE = "lakehouse.once"
"""The property of a bronze table whose feed, with `once: true`, has been read: later files are
ignored."""
MOST_PARALLEL = 4
"""So many feeds are read at a time."""


def ingest(
    lake: Lake,
    tables: Sequence[Table],
    run_id: str,
    progress: Callable[[str], None],
    memory: Memory | None = None,
) -> list[Entry]:
    """Ingests what is new for the tables; returns one entry per table, in order; raises nothing.

    A failing feed fails its own tables only. Up to `MOST_PARALLEL` feeds are read in parallel:
    listing and planning use one thread per feed. `records` in the counts are the table's own.
    Entries of feeds with records that no table reads follow. `memory` is that of the run, if it has
    one; it knows all configured tables, of which `tables` may be a part.
    """
    memory = memory or Memory()
    arrivals, everything = memory.feeds, memory.configured or tables
    outcomes, mine = [], list_feeds(tables)
    asked = [feed.name for feed in mine if feed.name not in arrivals]
    run = _Ingestion(lake, arrivals, newest_batches(lake, "bronze", asked))
    _plan_kafka(run, mine, memory)

    with ThreadPoolExecutor(MOST_PARALLEL) as pool:
        for at, outcome in enumerate(pool.map(partial(_read_feed, run), mine), 1):
            progress(count_off(outcome.describe(), at, len(mine)))
            outcomes.append(outcome)
    done = publish_own_views(lake, tables, build_entries(run_id, tables, outcomes))
    return [*done, *build_unread_entries(run_id, everything, outcomes)]


@dataclass
class _Ingestion:
    """What all feeds of a run share.

    `arrived_by_feed` is what the run knows of each feed, `newest_in_table` the newest batch in
    bronze of the others. Of Kafka's feeds `plans` are the offsets to read, `fetched` the records of
    feeds with little news, and `failed` the reasons why there is no plan.
    """

    lake: Lake
    arrived_by_feed: dict[str, Arrived]
    newest_in_table: Mapping[str, int | None]
    plans: dict[str, ReadingPlan] = field(default_factory=dict)
    fetched: dict[str, pa.Table] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


def _plan_kafka(run: _Ingestion, feeds: Sequence[Feed], memory: Memory) -> None:
    """Asks the brokers once for all feeds, and reads the feeds with little news together."""
    answers = ask_brokers(run.lake, feeds, memory.just_asked)
    for feed in feeds:
        if feed.kafka is None:
            continue
        try:
            state = _open_state(run, feed)
            if not state.ended:
                ends = feed.tables.get(TRANSACTIONS, ())
                needed = ends if feed.kafka.shared else topics_of(feed.kafka)
                bounds = answers.bounds_of(feed.kafka, needed)
                run.plans[feed.name] = plan_feed(feed, feed.kafka, state, bounds)
        except TABLE_FAILURES as failure:
            run.failed[feed.name] = failure
    run.fetched = fetch_few(run.lake.spark, run.plans.values())


def _read_feed(run: _Ingestion, feed: Feed) -> Outcome:
    outcome = Outcome(feed=feed, started_at=_utc_now())
    try:
        outcome = _ingest_feed(run, feed, outcome)
    except TABLE_FAILURES as failure:
        outcome = outcome.model_copy(update={"message": describe_failure(failure)})
        run.arrived_by_feed.pop(feed.name, None)
    return outcome.model_copy(update={"ended_at": _utc_now()})


def _ingest_feed(run: _Ingestion, feed: Feed, outcome: Outcome) -> Outcome:
    """Ingests the feed; the caller forgets what arrived of it if this fails."""
    if feed.name in run.failed:
        raise run.failed[feed.name]
    state = _open_state(run, feed)
    arrived = run.arrived_by_feed[feed.name]
    if state.ended:
        return outcome.model_copy(update={"batch": arrived.newest or None})
    came = _ingest_news(run, feed, state, max(arrived.newest, state.taken.batch))
    newest = max(arrived.newest, came.batch)
    topics = {**arrived.topics, **dict.fromkeys(came.records, came.batch)}
    run.arrived_by_feed[feed.name] = arrived._replace(newest=newest, topics=topics)
    state.orders = News(0, {}, state.orders).combine(came).orders
    waiting = _describe_unreadable(state.unreadable or {})
    if feed.once and newest and not waiting:
        changed = {READ_ONCE: outcome.started_at.isoformat()}
        set_properties(run.lake, feed, changed)
        state.ended = True
    results = {"batch": newest or None, "records": dict(came.records), "message": waiting}
    return outcome.model_copy(update=results | {"overwritten": state.overwritten})


def _open_state(run: _Ingestion, feed: Feed) -> FeedState:
    """The feed's state, brought up to date with bronze; the run keeps it."""
    arrived = run.arrived_by_feed.get(feed.name)
    if arrived is None:
        in_table = run.newest_in_table.get(feed.name)
        newest = prepare_table(run.lake, feed) if in_table is None else in_table
        arrived = Arrived(newest, {}, newest, looked_through=None if newest else 0)
    if isinstance(arrived.checkpoint, FeedState):
        return arrived.checkpoint
    state, newest = read_state(run.lake.target, feed), arrived.newest
    is_known = newest <= state.taken.batch and state.taken.unnumbered
    if newest > state.taken.batch or not state.notes:
        recover = recover_files if feed.path is not None else recover_offsets
        recover(run.lake, feed, state, newest)
    state.orders = {} if is_known or not newest else None
    state.ended = feed.once and READ_ONCE in read_properties(run.lake, feed)
    run.arrived_by_feed[feed.name] = arrived._replace(checkpoint=state)
    return state


def _ingest_news(run: _Ingestion, feed: Feed, state: FeedState, before: int) -> News:
    if feed.delta is not None:
        return ingest_delta(run.lake, feed, state, before)
    if feed.kafka is None:
        return ingest_files(run.lake, feed, state, before)
    plan, fetched = run.plans[feed.name], run.fetched.get(feed.name)
    return ingest_kafka(run.lake, plan, fetched, before)


def _describe_unreadable(unreadable: dict[str, str]) -> str | None:
    """A message about files that could not be read; None without any."""
    if not unreadable:
        return None
    named = "; ".join(f"{file}: {why}" for file, why in sorted(unreadable.items())[:5])
    more = f" and {len(unreadable) - 5} more" if len(unreadable) > 5 else ""
    return f"cannot read {named}{more}. The other files are in; replace or remove these"


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)
