"""What runs noted of the topics of many tables: a file in the lake, read without Spark.

So a table stays when its files or its topic are gone, and every command knows the tables of Kafka's
topics.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from lakehouse.config.records.many_tables import Topic
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.place import to_place, write_whole
from lakehouse.places.settings import is_reached
from lakehouse.words import render_count

if TYPE_CHECKING:
    from lakehouse.storage.lake import Lake

NOTE = "_topics.json"
_MOST_NAMED = 8


class Noted(msgspec.Struct):
    """What is noted of a folder, or of brokers.

    Attributes:
        topics: the topics by name.
        newest: the time of a folder's newest file then.
        new: the topics that the last run found.
        gone: the topics that the brokers no longer have.
    """

    topics: dict[str, Topic] = {}
    newest: float = 0
    new: list[str] = []
    gone: list[str] = []


class Search:
    """What a run keeps of its searches for topics.

    Attributes:
        lake: the lake with a Spark that reads Kafka, once it was needed.
        new: the topics that the run has found, by folder or brokers.
        ends: where topics without a key ended, whose newest records were looked at.
        just_asked: what the brokers answered last (`bronze.kafka.topics.JustAsked`).
        told: what the run has said of tables that wait.
        failures: why brokers do not answer of which no topic is known.
    """

    def __init__(self, open_lake: "Callable[[Target], Lake]") -> None:
        self._open = open_lake
        self.lake: Lake | None = None
        self.new: dict[str, set[str]] = {}
        self.ends: dict[str, object] = {}
        self.just_asked: dict[Any, Any] = {}
        self.told: set[str] = set()
        self.failures: dict[str, str] = {}

    def open_lake(self, target: Target) -> "Lake":
        """The lake, with the session of the first call."""
        self.lake = self.lake or self._open(target)
        return self.lake


def list_new_tables(target: Target, tables: Sequence[Table]) -> list[str]:
    """A sentence about the tables that the last run found, if there are any."""
    new = [table for table, (topic, noted) in _find_noted(target, tables) if topic in noted.new]
    return [describe_new(new)] if new else []


def describe_new(names: Sequence[str]) -> str:
    """A sentence about new tables."""
    named = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    return f"{render_count(len(names), 'new table')}: {named}"


def list_gone_topics(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a sentence about its topic that the brokers no longer have."""
    return {
        table: [
            f"the source no longer has the topic {topic}; gold.{table} stays as it is; do: nothing,"
            " or name the topic in `except`"
        ]
        for table, (topic, noted) in _find_noted(target, tables)
        if topic in noted.gone
    }


def _find_noted(target: Target, tables: Sequence[Table]) -> Iterator[tuple[str, tuple[str, Noted]]]:
    """The tables of topics that are noted, each with its topic and where that was found."""
    by_source = {
        (str(topic.source.get("path", place)), topic.source.get("topic")): (name, noted)
        for place, noted in read_noted(target).items()
        for name, topic in noted.topics.items()
    }
    for table in tables if by_source else ():
        for feed in table.feeds:
            place = place_of({"path": feed.path, "kafka": feed.kafka and dict(feed.kafka)})
            if (place, feed.topic) in by_source:
                yield table.table, by_source[place, feed.topic]


def place_of(source: Mapping[str, Any]) -> str:
    """The folder of a source, or its brokers; nothing where it has neither."""
    brokers = source["kafka"]["bootstrap_servers"] if source.get("kafka") else ""
    return str(source.get("path") or brokers).strip("/")


def write_noted(target: Target, noted: Mapping[str, Noted]) -> None:
    """Writes what a run noted, by folder or brokers."""
    note = to_place(target, target.checkpoints, NOTE)
    write_whole(note, msgspec.json.encode(noted))


def read_noted(target: Target) -> dict[str, Noted]:
    """What runs noted, by folder or brokers."""
    with suppress(OSError, msgspec.MsgspecError):
        if is_reached(target, target.checkpoints):
            content = to_place(target, target.checkpoints, NOTE).read_bytes()
            return msgspec.json.decode(content, type=dict[str, Noted])
    return {}
