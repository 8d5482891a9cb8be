"""Bronze: every feed is read once, and what is new in it is appended as it arrived."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import SparkSession

from bronze.checkpoint import Checkpoint, caught_up, checkpoint, kept
from bronze.counted import News, Records
from bronze.feeds import Feed, feeds
from bronze.files.ingest import ingest_files
from bronze.files.unreadable import noted
from bronze.kafka.brokers import unreachable_brokers
from bronze.kafka.ingest import ingest_kafka
from bronze.outcome import Outcome, entries, unread
from bronze.storage import news, prepare, properties, set_properties
from bronze.views import published
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Arrived, Memory
from lakehouse.spark.failures import in_short
from lakehouse.spark.spark_failures import TABLE_FAILURES
from lakehouse.storage.newest import newest_batches

# Set when a feed with `once: true` has been read: what comes to it later is left alone.
ONCE = "lakehouse.once"

AT_ONCE = 3


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
    run = _Run(spark, target, known, unreachable_brokers(spark, mine))
    asked = [feed.name for feed in mine if feed.name not in known]
    held = newest_batches(spark, target, "bronze", asked)

    def read(feed: Feed) -> Outcome:
        return _outcome(run, feed, held.get(feed.name))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(read, mine):
            progress(outcome.told())
            outcomes.append(outcome)
    done = published(spark, target, tables, entries(run_id, tables, outcomes))
    return [*done, *unread(run_id, everything, outcomes)]


class _Run(NamedTuple):
    """What reading a feed needs besides: what is known of each feed, and of Kafka's brokers."""

    spark: SparkSession
    target: Target
    known: dict[str, Arrived]
    unreachable: dict[str, str]


def _outcome(run: _Run, feed: Feed, held: int | None) -> Outcome:
    outcome = Outcome(feed=feed, started_at=_now())
    try:
        outcome = _ingested(run, feed, outcome, held)
    except TABLE_FAILURES as failure:
        outcome = outcome.model_copy(update={"message": in_short(failure)})
    return outcome.model_copy(update={"ended_at": _now()})


def _ingested(run: _Run, feed: Feed, outcome: Outcome, held: int | None) -> Outcome:
    spark, target, known, unreachable = run
    last = known.pop(feed.name, None)
    held = held if last is None else last.newest
    before = prepare(spark, target, feed) if held is None else held
    first = Arrived(before, {}, before, looked_through=None if before else 0)
    if feed.once and ONCE in properties(spark, target, feed):
        known[feed.name] = last or first
        return outcome.model_copy(update={"batch": before or None})
    if feed.kafka and feed.kafka.bootstrap_servers in unreachable:
        return outcome.model_copy(update={"message": unreachable[feed.kafka.bootstrap_servers]})
    place = kept(last and last.checkpoint) or checkpoint(spark, target, feed, before)
    told = _ingest(spark, target, feed, place, before)
    place = caught_up(spark, target, feed, place)
    batch, records = news(spark, target, feed, before) if told is None else told
    known[feed.name] = _arrived(last or first, batch, records)._replace(checkpoint=place)
    waiting = _waiting(noted(spark, target, feed))
    if feed.once and batch and not waiting:
        set_properties(spark, target, feed, {ONCE: outcome.started_at.isoformat()})
    return outcome.model_copy(
        update={"batch": batch or None, "records": dict(records), "message": waiting}
    )


def _ingest(
    spark: SparkSession, target: Target, feed: Feed, place: Checkpoint, before: int
) -> News | None:
    if feed.kafka is None:
        return ingest_files(spark, target, feed, place, before)
    return ingest_kafka(spark, target, feed, feed.kafka, place, before)


def _arrived(last: Arrived, batch: int, records: Records) -> Arrived:
    return last._replace(newest=batch, topics={**last.topics, **dict.fromkeys(records, batch)})


def _waiting(unreadable: dict[str, str]) -> str | None:
    """What to tell of files that could not be read, null when there are none."""
    if not unreadable:
        return None
    named = "; ".join(f"{file}: {why}" for file, why in sorted(unreadable.items())[:5])
    more = f" and {len(unreadable) - 5} more" if len(unreadable) > 5 else ""
    return f"cannot read {named}{more}. The other files are in; replace or remove these"


def _now() -> datetime:
    return datetime.now(timezone.utc)
