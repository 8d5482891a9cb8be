"""Many tables from one file: `tables` names topics by patterns, and each topic is a table.

A topic is one of Kafka's, a folder below the source's, or named by records in files there.

A file of one of these tables is merged over what the pattern says, key by key.
"""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import Field

from lakehouse.config.records.envelope import Texts
from lakehouse.config.source import REMOVE, Kafka
from lakehouse.config.strict import Strict
from lakehouse.config.unpacking import unpack_model
from lakehouse.errors import ConfigurationError

Document = dict[str, Any]
_NO_NAME = re.compile(r"[^a-z0-9]+")
_NO_TABLE = re.compile(
    r"__.*|[^.]+\.(transaction|schema-changes)|(.*[._])?(dbz|debezium)_(signal|heartbeat)[^.]*"
)
"""Topics that Debezium and Kafka write for themselves."""
_WILD = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")


class Topic(NamedTuple):
    """A topic that was found: the source's options that read it, and the key of its records."""

    name: str
    source: dict[str, str]
    keys: tuple[str, ...] = ()


class ManyTables(Strict):
    """What a file of many tables says beside what a table can say."""

    tables: Texts = Field(description="Patterns of topics, or of `schema.table`.")
    excepted: Texts = Field(
        default_factory=list, alias="except", description="Patterns of topics that are no tables."
    )
    name: str = Field(
        default="{table}",
        description="The name of each table, with `{table}`, `{schema}`, `{database}`, `{topic}`.",
    )

    def takes(self, topic: str) -> bool:
        """Whether a topic is one of the tables."""
        names = (topic, ".".join(topic.split(".")[-2:]))
        wanted, left_out = (
            any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
            for patterns in (self.tables, self.excepted)
        )
        return wanted and not left_out and not _NO_TABLE.fullmatch(topic)

    @property
    def expression(self) -> str:
        """A regular expression that the topics of all tables match, and perhaps others."""
        return "|".join(map(_to_expression, self.tables))

    def name_table(self, topic: str) -> str:
        """The table's name: small letters, digits and _."""
        parts = ["", "", *topic.split(".")][-3:]
        given = dict(zip(("database", "schema", "table"), parts, strict=True), topic=topic)
        name = _NO_NAME.sub("_", self.name.format(**given).lower()).strip("_")
        return name if name[:1].isalpha() else f"t_{name}"


FindTopics = Callable[[Mapping[str, Any], ManyTables], list[Topic]]
"""The topics of a source, as the file writes it, that are to be tables."""


def _to_expression(pattern: str) -> str:
    parts = zip(_WILD.split(pattern), [*_WILD.findall(pattern), ""], strict=True)
    wild = {"*": ".*", "": ""}
    return "(.*\\.)?" + "".join(re.escape(text) + wild.get(sign, ".") for text, sign in parts)


class Waiting(NamedTuple):
    """A table whose records name no key, or that has no topic (yet)."""

    table: str
    topic: str | None

    def __str__(self) -> str:
        if self.topic is None:
            return (
                f"{self.table}: waits, as its file names no source, and no topic of this name is"
                " found; do: run again when there is one, or name a source"
            )
        line = f"{{table: {self.table}, keys: [id]}}"
        return (
            f"{self.table}: waits, as no record of {self.topic} has a key; do: write"
            f" conf/tables/{self.table}.yml with its key's columns, such as {line}, or keys: []"
            " where it has none"
        )


def expand(
    document: Document, file: str, find_topics: FindTopics
) -> tuple[dict[str, Document], list[Waiting]]:
    """The documents of the tables, by name, and the tables that wait for their keys.

    Raises:
        ConfigurationError: the file contradicts itself.
        ManyConfigurationErrors: its own keys, or what it says of Kafka, are wrong.
    """
    options = {key: document[key] for key in ("tables", "except", "name") if key in document}
    many = unpack_model(ManyTables, options, file)
    shared = {key: value for key, value in document.items() if key not in options}
    source = _check_source(shared, file)
    topics = [topic for topic in find_topics(source, many) if many.takes(topic.name)]
    if "kafka" in source:
        every = {"topic": ",".join(topic.name for topic in topics), "shared": True}
        source = source | {"kafka": source["kafka"] | every}
    documents: dict[str, Document] = {}
    waiting = []
    for topic in topics:
        name = many.name_table(topic.name)
        if name in documents:
            action = "write name: '{schema}_{table}', or leave one out with except"
            raise ConfigurationError(file, "name", f"{name} twice", "a name of its own", action)
        keys = shared.get("keys") or [*topic.keys]
        documents[name] = shared | {"table": name, "source": source | topic.source, "keys": keys}
        if not keys and "keys" not in shared:
            waiting.append(Waiting(name, topic.name))
    return documents, waiting


def _check_source(shared: Document, file: str) -> Document:
    """The source of a file of many tables, before any topic is known."""
    source = shared.get("source")
    kafka = source.get("kafka") if isinstance(source, dict) else None
    if not isinstance(source, dict) or not (source.get("path") or kafka):
        expected = "a source with kafka, or with a path: a folder of topics or of their records"
        action = "write source: {format: debezium, path: shop}"
        raise ConfigurationError(file, "source", "neither", expected, action)
    both = [key for key, of in (("table", shared), ("topic", source)) if key in of]
    if isinstance(kafka, dict):
        both += ["topic"] if "topic" in kafka else []
        unpack_model(Kafka, kafka | {"topic": "*"}, file)
    if both:
        expected = "one of the two: `tables` names the topics, and they name the tables"
        raise ConfigurationError(file, both[0], f"{both[0]} with tables", expected, REMOVE)
    return source
