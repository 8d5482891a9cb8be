"""What came of a run over the feeds, told per table."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from bronze.contract import feed_name, transaction_feed
from bronze.feeds import Feed
from lakehouse import ledger
from lakehouse.ledger import Entry
from lakehouse.table import Strict, Table


class Outcome(Strict):
    """One feed in one run: highest batch, new records by topic, and why it failed, if it did."""

    feed: Feed
    started_at: datetime
    ended_at: datetime | None = None
    batch: int | None = None
    records: dict[str | None, int] = Field(default_factory=dict)
    message: str | None = None

    def told(self) -> str:
        """One line for a person."""
        return f"{self.feed.name}: {self.message or f'{sum(self.records.values())} new records'}"


def entries(run_id: str, tables: Sequence[Table], outcomes: Sequence[Outcome]) -> list[Entry]:
    """One entry per table. Failed when one of its feeds is; batch is the highest of its feeds.

    `records` counts the new records of the table's own topics. `others`, on a feed's first
    table, counts those of topics that are none of these tables'; so all counts add up to
    what was read.
    """
    by_feed = {outcome.feed.name: outcome for outcome in outcomes}
    return [
        _entry(run_id, table, [by_feed[feed] for feed in _feed_names(table)]) for table in tables
    ]


def _feed_names(table: Table) -> list[str]:
    """The table's own feeds, then those that bring the transactions of its consistency group."""
    own = [feed_name(table, source) for source in table.feeds]
    ends = [transaction_feed(table, source) for source in table.feeds]
    return list(dict.fromkeys([*own, *(found.feed for found in ends if found is not None)]))


def _entry(run_id: str, table: Table, outcomes: Sequence[Outcome]) -> Entry:
    messages = [outcome.message for outcome in outcomes if outcome.message]
    started = min(outcome.started_at for outcome in outcomes)
    ended = max(outcome.ended_at or outcome.started_at for outcome in outcomes)
    batch = max((outcome.batch for outcome in outcomes if outcome.batch), default=None)
    return ledger.told(
        run_id,
        "bronze",
        table.table,
        started,
        "; ".join(messages) or None,
        ended=ended,
        counts=_counts(table.table, outcomes),
        batch=batch,
    )


def _counts(table: str, outcomes: Sequence[Outcome]) -> dict[str, int]:
    own = sum(_own(outcome, table) for outcome in outcomes)
    firsts = [outcome for outcome in outcomes if next(iter(outcome.feed.tables)) == table]
    others = sum(_of_no_table(outcome) for outcome in firsts)
    return {"records": own} | ({"others": others} if others else {})


def _own(outcome: Outcome, table: str) -> int:
    topics = outcome.feed.tables.get(table)
    if topics is None:
        return 0
    return sum(count for topic, count in outcome.records.items() if not topics or topic in topics)


def _of_no_table(outcome: Outcome) -> int:
    claimed = outcome.feed.tables.values()
    if not all(claimed):
        return 0
    known = {topic for topics in claimed for topic in topics}
    return sum(count for topic, count in outcome.records.items() if topic not in known)
