"""Records that no table reads, in folders and Kafka topics that several tables share.

Bronze records them in the ledger under the name of the feed: `unread:TOPIC` counts the records of a
topic, `unread` the lines without a topic.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry
from lakehouse.words import render_count

UNREAD = "unread"
MOST_NAMED = 8


class Unread(NamedTuple):
    """Unread records of a feed: records by topic, most first, and lines without a topic."""

    feed: str
    topics: dict[str, int]
    lines: int

    def sentences(self) -> list[str]:
        """A sentence about the topics, and one about the lines, if there are any."""
        texts = []
        if self.topics:
            records, shown = sum(self.topics.values()), list(self.topics.items())[:MOST_NAMED]
            named = ", ".join(f"{topic} ({count:,})" for topic, count in shown)
            more = ", …" if len(self.topics) > MOST_NAMED else ""
            of = f"{render_count(records, 'record')} of {render_count(len(self.topics), 'topic')}"
            texts.append(f"{self.feed}: {of} that no table reads: {named}{more}")
        if self.lines:
            what = f"{render_count(self.lines, 'line')} that cannot be read or name no topic"
            texts.append(f"{self.feed}: {what}; do: `lakehouse dead-letters list`")
        return texts


def counts_of(records: Mapping[str | None, int]) -> dict[str, int]:
    """Records by topic as counts of a ledger entry."""
    return {UNREAD if t is None else f"{UNREAD}:{t}": n for t, n in records.items() if n}


def is_of_feed(entry: Entry) -> bool:
    """Whether an entry of the ledger is about a feed, and no table."""
    return any(name.partition(":")[0] == UNREAD for name in entry.counts)


def unread_of(entries: Iterable[Entry]) -> list[Unread]:
    """The unread records of each feed in the entries."""
    return list_unread([(e.table, name, n) for e in entries for name, n in e.counts.items()])


def list_unread(
    counts: Iterable[tuple[str, str, int]], tables: Iterable[Table] = ()
) -> list[Unread]:
    """The unread records of each feed, from counts by feed and name; without `tables`' topics."""
    read = {source.topic for table in tables for source in table.feeds}
    sums: dict[str, Counter[str]] = {}
    for feed, name, count in counts:
        kind, _, topic = name.partition(":")
        if kind == UNREAD and topic not in read:
            sums.setdefault(feed, Counter())[topic] += count
    return [
        Unread(feed, {t: n for t, n in topics.most_common() if t}, topics[""])
        for feed, topics in sums.items()
    ]
