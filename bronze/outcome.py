"""What a run read of each feed, as ledger entries of the tables and of feeds that none reads."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from bronze.contract import feed_name, transaction_feed
from bronze.feeds import Feed
from bronze.loss.holes import reads_topic
from lakehouse.config.strict import Strict
from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.unread import counts_of
from lakehouse.spark.failures import join_failures

MOST_NAMED = 3


class Outcome(Strict):
    """One feed in one run: highest batch, new records by topic, and why it failed, if it did."""

    feed: Feed
    started_at: datetime
    ended_at: datetime | None = None
    batch: int | None = None
    records: dict[str | None, int] = Field(default_factory=dict)
    message: str | None = None
    overwritten: list[str] = Field(default_factory=list)

    def describe(self) -> str:
        """The result in one line."""
        line = f"{self.feed.name}: {self.message or f'{sum(self.records.values())} new records'}"
        if not self.overwritten:
            return line
        named = ", ".join(self.overwritten[:MOST_NAMED])
        more = ", …" if len(self.overwritten) > MOST_NAMED else ""
        return f"{line}; overwritten after they were read, and not read again: {named}{more}"


def build_entries(run_id: str, tables: Sequence[Table], outcomes: Sequence[Outcome]) -> list[Entry]:
    """One entry per table: failed if one of its feeds is, with the highest batch of its feeds.

    `records` counts the new records of the table's own topics.
    """
    by_feed = {outcome.feed.name: outcome for outcome in outcomes}
    return [
        _build_entry(run_id, table, [by_feed[name] for name in _feed_names(table)])
        for table in tables
    ]


def build_unread_entries(
    run_id: str, tables: Sequence[Table], outcomes: Sequence[Outcome]
) -> list[Entry]:
    """An entry per feed with new records that none of the tables reads.

    With the tables' entries, the counts add up to all records. `tables` are all configured ones.
    """
    unread_counts = [(outcome, counts_of(_of_no_table(outcome, tables))) for outcome in outcomes]
    return [
        ledger.make_entry(
            run_id, "bronze", outcome.feed.name, outcome.started_at, ended=outcome.ended_at
        ).with_counts(counts, outcome.batch)
        for outcome, counts in unread_counts
        if counts
    ]


def _feed_names(table: Table) -> list[str]:
    """The table's own feeds, then those of the transactions of its consistency group."""
    names = [feed_name(table, source) for source in table.feeds]
    transactions = [transaction_feed(table, source) for source in table.feeds]
    return list(dict.fromkeys([*names, *(t.feed for t in transactions if t is not None)]))


def _build_entry(run_id: str, table: Table, outcomes: Sequence[Outcome]) -> Entry:
    messages = [outcome.message for outcome in outcomes if outcome.message]
    started = min(outcome.started_at for outcome in outcomes)
    ended = max(outcome.ended_at or outcome.started_at for outcome in outcomes)
    batch = max((outcome.batch for outcome in outcomes if outcome.batch), default=None)
    message = join_failures(messages) or None
    entry = ledger.make_entry(run_id, "bronze", table.table, started, message, ended)
    records = sum(_count_records(outcome, table.table) for outcome in outcomes)
    return entry.with_counts({"records": records}, batch)


def _count_records(outcome: Outcome, table: str) -> int:
    topics = outcome.feed.tables.get(table)
    if topics is None:
        return 0
    return sum(count for topic, count in outcome.records.items() if reads_topic(topics, topic))


def _of_no_table(outcome: Outcome, tables: Sequence[Table]) -> dict[str | None, int]:
    """The new records of a shared feed, by topic, that no table or consistency group reads."""
    if not all(outcome.feed.tables.values()):  # a table without topics reads all of them
        return {}
    feed, read = outcome.feed.name, set[str | None]()
    for table in tables:
        for source in table.feeds:
            if feed_name(table, source) == feed:
                read.add(source.topic)
            transactions = transaction_feed(table, source)
            if transactions is not None and transactions.feed == feed:
                read.add(transactions.topic)
    if None in read:  # all topics are read, so only records without a topic are left
        return {topic: n for topic, n in outcome.records.items() if topic is None}
    return {topic: n for topic, n in outcome.records.items() if topic not in read}
