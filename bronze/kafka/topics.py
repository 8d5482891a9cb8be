"""First and last offsets of Kafka's topics, read once for all topics of a connection.

Spark reports them only to streams. So a stream is started that reads nothing and stops at once: its
checkpoint has the first offsets, its progress the last ones. The stream subscribes by pattern, so
that a missing topic is only absent from the answers and does not fail others.
"""

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from bronze.feeds import Feed
from bronze.kafka.brokers import unreachable_brokers
from lakehouse.config.source import Kafka
from lakehouse.errors import ConfigurationError, LakehouseError
from lakehouse.places.place import remove_tree, to_place
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.spark.secrets import read_secret
from lakehouse.storage.lake import Lake

# All requested records exist, so the broker need not wait for more. It answers the requests of a
# connection one by one: each wait would delay the next request.
AT_ONCE = {"kafka.fetch.max.wait.ms": "10"}


class KafkaFailed(LakehouseError):
    """Topics of a feed cannot be read; the message says why."""


class Connection(NamedTuple):
    """Kafka's servers and the options of its client."""

    servers: str
    security: tuple[tuple[str, str], ...]

    def options(self, spark: SparkSession) -> dict[str, str]:
        """Spark's options of the connection, secrets included."""
        secret = resolve_secrets(spark, dict(self.security))
        given = {k if k.startswith("kafka.") else f"kafka.{k}": text for k, text in secret.items()}
        return AT_ONCE | given | {"kafka.bootstrap.servers": self.servers}


class Bounds(NamedTuple):
    """Offsets of a partition: of the first record that still exists, and after the last one."""

    first: int
    end: int


TopicBounds: TypeAlias = Mapping[str, Mapping[str, Bounds]]
"""By topic and partition."""


JustAsked: TypeAlias = dict[Connection, dict[str, TopicBounds]]
"""What the brokers of a connection were just asked: the answers by the patterns of topics."""


class Answers(NamedTuple):
    """The bounds of topics by connection, or why a connection has none."""

    bounds: Mapping[Connection, TopicBounds]
    failures: Mapping[Connection, str]

    def bounds_of(self, kafka: Kafka, needed: Iterable[str]) -> TopicBounds:
        """The bounds of a feed's topics, of which those that are `needed` must be there.

        Raises:
            KafkaFailed: no broker answers, or a topic is missing.
        """
        bounds = self.all_of(kafka)
        missing = [topic for topic in needed if topic not in bounds]
        if missing:
            raise KafkaFailed(f"UnknownTopicOrPartition: there is no topic {', '.join(missing)}")
        return {topic: bounds[topic] for topic in topics_of(kafka) if topic in bounds}

    def all_of(self, kafka: Kafka) -> TopicBounds:
        """The bounds of every topic of a connection that was asked for.

        Raises:
            KafkaFailed: no broker answers.
        """
        connection = connection_of(kafka)
        if connection in self.failures:
            raise KafkaFailed(self.failures[connection])
        return self.bounds[connection]


def topics_of(kafka: Kafka) -> list[str]:
    """The topics that a feed reads, in order."""
    return [topic.strip() for topic in kafka.topic.split(",")]


def connection_of(kafka: Kafka) -> Connection:
    """The connection of a feed's topics."""
    return Connection(kafka.bootstrap_servers, tuple(sorted(kafka.security.items())))


def ask_brokers(lake: Lake, feeds: Iterable[Feed], just_asked: JustAsked) -> Answers:
    """The bounds of the topics of all feeds, or the failure of each connection.

    What was just asked is used once, and not asked again.
    """
    asked: dict[Connection, list[str]] = {}
    for feed in feeds:
        if feed.kafka is not None:
            asked.setdefault(connection_of(feed.kafka), []).extend(topics_of(feed.kafka))
    answered = {}
    for connection, topics in asked.items():
        answers = just_asked.pop(connection, {})
        if all(any(re.fullmatch(each, topic) for each in answers) for topic in topics):
            answered[connection] = {t: of for some in answers.values() for t, of in some.items()}
    patterns = {c: "|".join(map(re.escape, dict.fromkeys(t))) for c, t in asked.items()}
    others = {c: pattern for c, pattern in patterns.items() if c not in answered}
    bounds, failures = _ask_connections(lake, others)
    return Answers({**bounds, **answered}, failures)


def find_topics(lake: Lake, kafka: Kafka, pattern: str, just_asked: JustAsked) -> TopicBounds:
    """The topics whose names match a regular expression, with their bounds.

    Raises:
        KafkaFailed: no broker answers.
    """
    connection = connection_of(kafka)
    bounds = _ask_connections(lake, {connection: pattern}).all_of(kafka)
    just_asked.setdefault(connection, {})[pattern] = bounds
    return bounds


def _ask_connections(lake: Lake, asked: Mapping[Connection, str]) -> Answers:
    """What the brokers of each connection answer about the topics that match a pattern."""
    silent = unreachable_brokers(lake.spark, {connection.servers for connection in asked})

    def ask(connection: Connection) -> TopicBounds | str:
        if connection.servers in silent:
            return silent[connection.servers]
        try:
            return _read_bounds(lake, connection, asked[connection])
        except TABLE_FAILURES as failure:
            return describe_failure(failure)

    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        answers = dict(zip(asked, pool.map(ask, asked), strict=True))
    failures = {c: answer for c, answer in answers.items() if isinstance(answer, str)}
    return Answers({c: a for c, a in answers.items() if not isinstance(a, str)}, failures)


def _read_bounds(lake: Lake, connection: Connection, pattern: str) -> TopicBounds:
    """The bounds of the topics whose names match the pattern."""
    options = {"subscribePattern": pattern, "startingOffsets": "earliest"}
    folder = to_place(lake.target, lake.target.checkpoints, "bronze", "_bounds", uuid.uuid4().hex)
    stream = lake.spark.readStream.format("kafka").options(
        **connection.options(lake.spark), **options
    )
    writer = stream.load().writeStream.foreachBatch(_read_nothing)
    try:
        query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
        query.awaitTermination()
        begun = (folder / "sources" / "0" / "0").read_text(encoding="utf-8")
    finally:
        remove_tree(folder)
    firsts = json.loads(begun[begun.index("{") :])
    texts = [source["endOffset"] for each in query.recentProgress for source in each["sources"]]
    ends = json.loads(texts[-1]) if texts and texts[-1] else firsts
    return {
        topic: {
            partition: Bounds(firsts.get(topic, {}).get(partition, 0), end)
            for partition, end in partitions.items()
        }
        for topic, partitions in ends.items()
    }


def _read_nothing(batch: DataFrame, batch_id: int) -> None:
    """Ignores a batch of the stream."""


def resolve_secrets(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """The options with `env:NAME` and `secret:SCOPE/KEY` replaced by their values.

    Raises:
        ConfigurationError: the variable or the secret store is missing; it never has the value.
    """
    return {key: _resolve_secret(spark, key, value) for key, value in options.items()}


def _resolve_secret(spark: SparkSession, key: str, value: str) -> str:
    (kind, _, name), option = value.partition(":"), f"kafka.security.{key}"
    if kind == "env" and name not in os.environ:
        expected = f"an environment variable {name}"
        raise ConfigurationError("source", option, "nothing", expected, "set it")
    if kind == "env":
        return os.environ[name]
    return read_secret(spark, name, option) if kind == "secret" else value
