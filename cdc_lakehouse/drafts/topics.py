"""The topics of a source of many tables: Kafka's, or folders, or those that records in files name.

What a run finds is noted (`cdc_lakehouse.drafts.topic_notes`).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cdc_lakehouse.drafts.sample import read_record_key
from cdc_lakehouse.drafts.sample_files import Object, open_sample, read_value
from cdc_lakehouse.drafts.topic_notes import Noted, Search, place_of, read_noted, write_noted
from cdc_lakehouse.terminal.console import warn
from lakehouse.config.formats import is_whole
from lakehouse.config.records.many_tables import ManyTables, Topic
from lakehouse.config.source import Kafka, RowsSource, SchemaRegistry
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError, LakehouseError
from lakehouse.places.place import to_place
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from silver.decode.protocols.envelopes import name_keys

_FEW = 20
_NO_KEYS = Topic("", {})


class TopicFinder:
    """Finds the topics of the sources of a target; a run's `search` asks brokers, and notes."""

    def __init__(self, target: Target, search: Search | None = None) -> None:
        self._target, self._search = target, search
        self._noted = read_noted(target)

    def find(self, source: Mapping[str, Any], many: ManyTables) -> list[Topic]:
        """The topics of the tables, those that were noted before among them."""
        kafka, place = source.get("kafka"), place_of(source)
        noted = self._noted.get(place, Noted())
        topics, newest, gone = {**noted.topics}, noted.newest, noted.gone
        if kafka is None:
            seen, newest = self._look_at_folder(place, source, noted)
        else:
            seen, gone = self._look_at_brokers(source, many, noted)
        for topic in seen:
            if not topics.get(topic.name, _NO_KEYS).keys:
                topics[topic.name] = topic
        if self._search is not None:
            new = self._search.new.setdefault(place, set())
            keyless = {name for name, topic in noted.topics.items() if not topic.keys}
            before = noted.topics.keys() - {name for name in keyless if topics[name].keys}
            new |= {name for name in topics.keys() - before if many.takes(name)}
            self._keep(place, Noted(topics, newest, sorted(new), gone))
        return [topics[name] for name in sorted(topics)]

    def _look_at_folder(
        self, place: str, source: Mapping[str, Any], noted: Noted
    ) -> tuple[list[Topic], float]:
        """The topics of a folder, and the time of its newest file."""
        folder = to_place(self._target, self._target.landing, place)
        if not isinstance(folder, Path) or not folder.is_dir():
            return [], noted.newest
        seen = [*_look_at_folders(folder, place, source, noted.topics)]
        files = [one for one in list_files(folder, "*") if one.stat().st_mtime >= noted.newest]
        seen += _look_at_records((record for file in files for record in _read(file)), source)
        return seen, max((one.stat().st_mtime for one in files), default=noted.newest)

    def _look_at_brokers(
        self, source: Mapping[str, Any], many: ManyTables, noted: Noted
    ) -> tuple[list[Topic], list[str]]:
        """Kafka's topics, and those that are gone; only a run asks."""
        if self._search is None:
            return [], noted.gone
        from bronze.kafka.newest_records import read_newest
        from bronze.kafka.topics import find_topics

        kafka = Kafka.model_validate(source["kafka"] | {"topic": many.expression})
        registry = source.get("schema_registry")
        try:
            lake = self._search.open_lake(self._target)
            every = find_topics(lake, kafka, many.expression, self._search.just_asked)
        except LakehouseError as failure:
            if not noted.topics:  # else bronze says why, for each table
                self._search.failures[kafka.bootstrap_servers] = str(failure)
            return [], noted.gone
        self._search.failures.pop(kafka.bootstrap_servers, None)
        bounds = {topic: of for topic, of in every.items() if many.takes(topic)}
        keyless = {
            topic: of
            for topic, of in bounds.items()
            if not noted.topics.get(topic, _NO_KEYS).keys and self._search.ends.get(topic) != of
        }
        seen = [Topic(topic, {"topic": topic}) for topic in bounds]
        try:
            asked = SchemaRegistry.model_validate(registry) if registry else None
            records = [*read_newest(lake.spark, kafka, keyless, asked)]
            seen = [*_look_at_records(records, source), *seen]
            self._search.ends.update(keyless)
        except TABLE_FAILURES as failure:
            warn(f"the keys of new topics cannot be read: {describe_failure(failure)}")
        others = [name for name in noted.gone if not many.takes(name)]
        return seen, [*others, *(t for t in noted.topics if many.takes(t) and t not in every)]

    def _keep(self, place: str, noted: Noted) -> None:
        if self._noted.get(place) != noted:
            self._noted[place] = noted
            write_noted(self._target, self._noted)


def _look_at_folders(
    folder: Path, path: str, source: Mapping[str, Any], noted: Mapping[str, Topic]
) -> Iterator[Topic]:
    """The topics that have a folder each, but those whose keys are noted."""
    entries = sorted(one for one in folder.iterdir() if one.is_dir() and one.name[0] not in "._")
    for entry in entries:
        if entry.name not in noted or not noted[entry.name].keys:
            every = list_files(entry, "**/*")
            few = every if len(every) <= _FEW else [every[0], *every[1 - _FEW :]]
            records = (record for file in few for record in _read(file))
            keys = next((named for one in records if (named := _find_keys(one, source))), [])
            yield Topic(entry.name, {"path": f"{path}/{entry.name}"}, tuple(keys))


def _look_at_records(records: Iterable[Object], source: Mapping[str, Any]) -> Iterator[Topic]:
    """The topics that records name, with the keys of their records."""
    keys_by_topic: dict[str, list[str]] = {}
    for record in records:
        if is_whole(record) and record.get("topic"):
            topic = str(record["topic"])
            if not keys_by_topic.get(topic):
                keys_by_topic[topic] = _find_keys(record, source)
    for name, keys in keys_by_topic.items():
        yield Topic(name, {"topic": name}, tuple(keys))


def list_files(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that are no others' notes."""
    return sorted(one for one in folder.glob(pattern) if one.is_file() and one.name[0] not in "._")


def _read(file: Path) -> list[Object]:
    try:
        return [*open_sample(file).records]
    except ConfigurationError:
        return []  # a file that cannot be read is told by the run


def _find_keys(record: Object, source: Mapping[str, Any]) -> list[str]:
    """The key's columns that a record names: by its own key, or in its envelope."""
    if keys := read_record_key([record]):
        return keys
    value = read_value(record)
    parts = RowsSource.model_validate(source).parts if _is_of_rows(source) else None
    return [*name_keys(value, parts)] if parts is not None and isinstance(value, dict) else []


def _is_of_rows(source: Mapping[str, Any]) -> bool:
    return source.get("format") not in ("debezium", "ydb", "bigquery", "snapshot", None)
