"""Bronze: every feed is read once, and what is new in it is appended as it arrived."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone

import pyarrow as pa
from pyspark.sql import SparkSession

from bronze.delta import ingest_delta
from bronze.feed_state import FeedState, read_state
from bronze.feeds import Feed, feeds
from bronze.files.ingest import ingest_files, recover_files
from bronze.kafka.ingest import ReadingPlan, fetch_few, ingest_kafka, plan_feed, recover_offsets
from bronze.kafka.topics import ask_brokers
from bronze.outcome import Outcome, entries, unread
from bronze.storage import News, prepare, properties, set_properties
from bronze.views import published
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Arrived, Memory
from lakehouse.spark.failures import in_short
from lakehouse.spark.spark_failures import TABLE_FAILURES
from lakehouse.storage.newest import newest_batches
from lakehouse.words import count_off

# Set when a feed with `once: true` has been read: what comes to it later is left alone.
ONCE = "lakehouse.once"

AT_ONCE = 4


def ingest(
    spark: SparkSession,
    target: Target,
    tables: Sequence[Table],
    run_id: str,
    progress: Callable[[str], None],
    memory: Memory | None = None,
) -> list[Entry]:
    """Ingest what is new for the tables; one entry per table, in their order; raises nothing.

    A feed that fails fails its own tables only. A few are read at the same time: much of a feed's
    time is that of one thread, which lists and plans. `records` in the counts are the table's own.
    Entries of feeds that brought records which no table reads follow. `memory` is the run's, where
    it has one; it tells all tables, of which `tables` may be a part.
    """
    memory = memory or Memory()
    known, everything = memory.feeds, memory.configured or tables
    outcomes, mine = [], feeds(tables)
    asked = [feed.name for feed in mine if feed.name not in known]
    held = newest_batches(spark, target, "bronze", asked)
    run = _Ingestion(spark, target, known, held)
    _plan_kafka(run, mine)

    def read(feed: Feed) -> Outcome:
        return _outcome(run, feed)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for at, outcome in enumerate(pool.map(read, mine), 1):
            progress(count_off(outcome.told(), at, len(mine)))
            outcomes.append(outcome)
    done = published(spark, target, tables, entries(run_id, tables, outcomes))
    return [*done, *unread(run_id, everything, outcomes)]


@dataclass
class _Ingestion:
    """What reading a feed needs besides.

    `known` is what is known of each feed, `held` the newest batch of the others. Of Kafka's feeds
    `plans` tells what is new, `fetched` are the records of those that have little, and `failed`
    tells why there is no plan.
    """

    spark: SparkSession
    target: Target
    known: dict[str, Arrived]
    held: Mapping[str, int | None]
    plans: dict[str, ReadingPlan] = field(default_factory=dict)
    fetched: dict[str, pa.Table] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


def _plan_kafka(run: _Ingestion, feeds: Sequence[Feed]) -> None:
    """Asks the brokers once for all feeds, and reads what is little of all of them together."""
    answers = ask_brokers(run.spark, run.target, feeds)
    for feed in feeds:
        if feed.kafka is None:
            continue
        try:
            state = _opened(run, feed)
            if not state.ended:
                run.plans[feed.name] = plan_feed(feed, feed.kafka, state, answers.of(feed.kafka))
        except TABLE_FAILURES as failure:
            run.failed[feed.name] = failure
    run.fetched = fetch_few(run.spark, run.plans.values())


def _outcome(run: _Ingestion, feed: Feed) -> Outcome:
    outcome = Outcome(feed=feed, started_at=_now())
    try:
        outcome = _ingested(run, feed, outcome)
    except TABLE_FAILURES as failure:
        outcome = outcome.model_copy(update={"message": in_short(failure)})
        run.known.pop(feed.name, None)
    return outcome.model_copy(update={"ended_at": _now()})


def _ingested(run: _Ingestion, feed: Feed, outcome: Outcome) -> Outcome:
    """What is known of the feed is forgotten where this fails, and asked for anew."""
    if feed.name in run.failed:
        raise run.failed[feed.name]
    state = _opened(run, feed)
    arrived = run.known[feed.name]
    if state.ended:
        return outcome.model_copy(update={"batch": arrived.newest or None})
    came = _news(run, feed, state, max(arrived.newest, state.taken.batch))
    newest = max(arrived.newest, came.batch)
    topics = {**arrived.topics, **dict.fromkeys(came.records, came.batch)}
    run.known[feed.name] = arrived._replace(newest=newest, topics=topics)
    state.orders = News(0, {}, state.orders).followed(came).orders
    waiting = _waiting(state.unreadable or {})
    if feed.once and newest and not waiting:
        changed = {ONCE: outcome.started_at.isoformat()}
        set_properties(run.spark, run.target, feed, changed)
        state.ended = True
    told = {"batch": newest or None, "records": dict(came.records), "message": waiting}
    return outcome.model_copy(update=told | {"overwritten": state.overwritten})


def _opened(run: _Ingestion, feed: Feed) -> FeedState:
    """What was read of the feed, brought up to what bronze holds; `known` has it from then on."""
    arrived = run.known.get(feed.name) or _first_known(run, feed)
    if isinstance(arrived.checkpoint, FeedState):
        return arrived.checkpoint
    state, newest = read_state(run.target, feed), arrived.newest
    if newest > state.taken.batch or not state.notes:
        recover = recover_files if feed.path is not None else recover_offsets
        recover(run.spark, run.target, feed, state, newest)
    state.orders = None if newest else {}
    state.ended = feed.once and ONCE in properties(run.spark, run.target, feed)
    run.known[feed.name] = arrived._replace(checkpoint=state)
    return state


def _first_known(run: _Ingestion, feed: Feed) -> Arrived:
    """What is known of a feed at first: its newest batch."""
    held = run.held.get(feed.name)
    newest = prepare(run.spark, run.target, feed) if held is None else held
    return Arrived(newest, {}, newest, looked_through=None if newest else 0)


def _news(run: _Ingestion, feed: Feed, state: FeedState, before: int) -> News:
    if feed.delta is not None:
        return ingest_delta(run.spark, run.target, feed, state, before)
    if feed.kafka is None:
        return ingest_files(run.spark, run.target, feed, state, before)
    plan, fetched = run.plans[feed.name], run.fetched.get(feed.name)
    return ingest_kafka(run.spark, run.target, plan, fetched, before)


def _waiting(unreadable: dict[str, str]) -> str | None:
    """What to tell of files that could not be read, null when there are none."""
    if not unreadable:
        return None
    named = "; ".join(f"{file}: {why}" for file, why in sorted(unreadable.items())[:5])
    more = f" and {len(unreadable) - 5} more" if len(unreadable) > 5 else ""
    return f"cannot read {named}{more}. The other files are in; replace or remove these"


def _now() -> datetime:
    return datetime.now(timezone.utc)
