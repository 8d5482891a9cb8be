"""The topics of a landing folder: its folders, or those that the records in it name.

What was found is noted in the lake, so that a table stays when its landing files are gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from cdc_lakehouse.drafts.sample import read_record_key
from cdc_lakehouse.drafts.sample_files import Object, open_sample, read_value
from lakehouse.config.formats import is_whole
from lakehouse.config.records.many_tables import Topic
from lakehouse.config.source import RowsSource
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.places.place import to_place, write_whole
from silver.decode.protocols.envelopes import name_keys

NOTE = "_topics.json"
_FEW = 20


class _Noted(msgspec.Struct):
    """What is noted of a folder: its topics by name, and the time of its newest file then."""

    topics: dict[str, Topic] = {}
    newest: float = 0


class TopicFinder:
    """Finds the topics of the sources of a target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._note = None if target.catalog else to_place(target, target.lake, NOTE)
        self._noted: dict[str, _Noted] = {}
        if self._note is not None:
            with suppress(OSError, msgspec.MsgspecError):
                content = self._note.read_bytes()
                self._noted = msgspec.json.decode(content, type=dict[str, _Noted])

    def find(self, source: Mapping[str, Any]) -> list[Topic]:
        """The topics below the source's folder, those that were noted before among them."""
        path = str(source["path"]).strip("/")
        folder = to_place(self._target, self._target.landing, path)
        noted = self._noted.get(path, _Noted())
        topics, newest = {**noted.topics}, noted.newest
        if isinstance(folder, Path) and folder.is_dir():
            for topic in _look_at_folders(folder, path, source, topics):
                topics[topic.name] = topic
            files = [one for one in list_files(folder, "*") if one.stat().st_mtime >= newest]
            for topic in _look_at_records(files, source):
                if not topics.get(topic.name, Topic("", {})).keys:
                    topics[topic.name] = topic
            newest = max((one.stat().st_mtime for one in files), default=newest)
        self._keep(path, _Noted(topics, newest))
        return [topics[name] for name in sorted(topics)]

    def _keep(self, path: str, noted: _Noted) -> None:
        """Notes topics in a lake that is there."""
        if self._noted.get(path) == noted or not isinstance(self._note, Path):
            return
        self._noted[path] = noted
        if self._note.parent.is_dir():
            write_whole(self._note, msgspec.json.encode(self._noted))


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


def _look_at_records(files: Sequence[Path], source: Mapping[str, Any]) -> Iterator[Topic]:
    """The topics that the first records of files name."""
    keys_by_topic: dict[str, list[str]] = {}
    for record in (record for file in files for record in _read(file)):
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
