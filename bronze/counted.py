"""How many records of each topic a look at a feed appended, counted while they were written.

That saves a look at what was just written. Where the write cannot tell, bronze is asked: a batch
that an earlier run may have committed already, more topics than were expected, and every target but
a local Spark, on whose server a batch is written by a copy of the function that was given.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from bronze.feeds import Feed

Records: TypeAlias = Mapping[str | None, int]


class News(NamedTuple):
    """The newest batch that holds a record, and the new records by topic (or None)."""

    batch: int
    records: Records


class Counting(NamedTuple):
    """Rows on their way into bronze, and what will have been seen of them once they are written."""

    rows: DataFrame
    seen: Observation
    topics: tuple[str, ...]

    def records(self) -> Records | None:
        """What was written, by topic; None where there was more than one other topic."""
        return _by_topic(self.seen.get, self.topics)


def counting(rows: DataFrame, feed: Feed) -> Counting:
    """The rows, counted while they are written; a write that Delta skips never tells."""
    topics, seen = expected(feed), Observation()
    sums = [told.alias(name) for name, told in _sums(topics).items()]
    return Counting(rows.observe(seen, *sums), seen, topics)


def expected(feed: Feed) -> tuple[str, ...]:
    """The topics that the feed's tables or its source name."""
    named = [topic for topics in feed.tables.values() for topic in topics]
    subscribed = feed.kafka.topic.split(",") if feed.kafka else []
    return tuple(dict.fromkeys([*named, *(topic.strip() for topic in subscribed)]))


def total(before: int, written: Sequence[tuple[int, Records | None]]) -> News | None:
    """What all batches of a look hold, which came after `before`; None where one did not tell.

    Args:
        before: the newest batch until then.
        written: each batch with its records, where its write told them.
    """
    news, sums = before, dict[str | None, int]()
    for number, records in written:
        if records is None:
            return None
        news = number if records else news
        for topic, count in records.items():
            sums[topic] = sums.get(topic, 0) + count
    return News(news, sums)


def _sums(topics: Sequence[str]) -> dict[str, Column]:
    topic = F.col("_topic")
    of_topics = {f"t{at}": F.count_if(topic == text) for at, text in enumerate(topics)}
    other = F.when(~topic.isin(*topics), topic) if topics else topic
    return {
        "records": F.count(F.lit(1)),
        "without": F.count_if(topic.isNull()),
        "first": F.min(other),
        "last": F.max(other),
        **of_topics,
    }


def _by_topic(found: Mapping[str, Any], topics: Sequence[str]) -> Records | None:
    if found["first"] != found["last"]:
        return None
    counts: dict[str | None, int] = {text: int(found[f"t{at}"]) for at, text in enumerate(topics)}
    counts[None] = int(found["without"])
    if found["first"] is not None:
        counts[found["first"]] = int(found["records"]) - sum(counts.values())
    return {topic: count for topic, count in counts.items() if count}
