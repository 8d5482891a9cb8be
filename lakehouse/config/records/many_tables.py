"""Many tables from one file: `tables` names topics by patterns, and each topic is a table.

A file of one of these tables is merged over what the pattern says, key by key.
"""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import Field

from lakehouse.config.records.envelope import Texts
from lakehouse.config.source import REMOVE
from lakehouse.config.strict import Strict
from lakehouse.config.unpacking import unpack_model
from lakehouse.errors import ConfigurationError

Document = dict[str, Any]
_NO_NAME = re.compile(r"[^a-z0-9]+")


class Topic(NamedTuple):
    """A topic that was found: the source's options that read it, and the key of its records."""

    name: str
    source: dict[str, str]
    keys: tuple[str, ...] = ()


FindTopics = Callable[[Mapping[str, Any]], list[Topic]]
"""The topics of a source, as the file writes it."""


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
        return wanted and not left_out

    def name_table(self, topic: str) -> str:
        """The table's name: small letters, digits and _."""
        parts = ["", "", *topic.split(".")][-3:]
        given = dict(zip(("database", "schema", "table"), parts, strict=True), topic=topic)
        name = _NO_NAME.sub("_", self.name.format(**given).lower()).strip("_")
        return name if name[:1].isalpha() else f"t_{name}"


class Waiting(NamedTuple):
    """A table whose records name no key; `file` is the file that may name it."""

    table: str
    topic: str

    def __str__(self) -> str:
        line = f"{{table: {self.table}, keys: [id]}}"
        return (
            f"{self.table}: waits, as no record of {self.topic} has a key; do: write"
            f" conf/tables/{self.table}.yml with its key's columns, such as {line}"
        )


def expand(
    document: Document, file: str, find_topics: FindTopics
) -> tuple[dict[str, Document], list[Waiting]]:
    """The documents of the tables, by name, and the tables that wait for their keys.

    Raises:
        ConfigurationError: the file contradicts itself, or reads no folder.
    """
    options = {key: document[key] for key in ("tables", "except", "name") if key in document}
    many = unpack_model(ManyTables, options, file)
    shared = {key: value for key, value in document.items() if key not in options}
    source = shared.get("source")
    if not isinstance(source, dict) or not source.get("path"):
        expected = "a source with a path: a folder of topics, or of records that name theirs"
        action = "write source: {format: debezium, path: shop}"
        raise ConfigurationError(file, "source", "no path", expected, action)
    if "table" in shared:
        expected = "one of the two: tables are named by their topics"
        raise ConfigurationError(file, "table", "table with tables", expected, REMOVE)
    documents: dict[str, Document] = {}
    waiting = []
    for topic in filter(lambda one: many.takes(one.name), find_topics(source)):
        name = many.name_table(topic.name)
        if name in documents:
            action = "write name: '{schema}_{table}', or leave one out with except"
            raise ConfigurationError(file, "name", f"{name} twice", "a name of its own", action)
        keys = shared.get("keys") or [*topic.keys]
        documents[name] = shared | {"table": name, "source": source | topic.source, "keys": keys}
        if not keys and "keys" not in shared:
            waiting.append(Waiting(name, topic.name))
    return documents, waiting
