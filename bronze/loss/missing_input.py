"""Tables for which nothing has arrived, and why: no or empty folders, topics without records.

A newest snapshot without rows is reported too. Reads folders and the Delta logs of bronze, without
Spark. Tables in a catalog and feeds of very many files are not checked.
"""

import gzip
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from bronze.contract import feed_name
from bronze.files.file_kinds import encoding_by_mark
from lakehouse.config.source import Source
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.place import (
    Place,
    ask_each,
    list_below,
    list_folder,
    open_file,
    parts_below,
    to_place,
)
from lakehouse.places.settings import is_reached
from lakehouse.storage.delta_log import TableLog, read_table_log, read_values
from lakehouse.storage.landing import is_finished

MOST_NAMED = 5


def missing_input(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a warning for each of its sources without records; only tables with warnings.

    A folder that is empty now but has had records is no reason for a warning. Missing folders are
    left to `missing_folders`.
    """
    if target.catalog:
        return {}
    logs: dict[str, BronzeLog | None] = {}
    for name in {feed_name(table, source) for table in tables for source in table.feeds}:
        log = read_table_log(target, "bronze", name)
        logs[name] = None if log is None else BronzeLog(log.rows, log)
    others = OtherFolders(target, _read_whole(tables))
    by_table = {
        table.table: [
            warning
            for source in table.feeds
            if (warning := _find_warning(target, source, logs[feed_name(table, source)], others))
        ]
        for table in tables
    }
    return {name: warnings for name, warnings in by_table.items() if warnings}


def missing_folders(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a warning for each landing folder that does not exist; looks at folders alone."""
    if target.catalog or not is_reached(target, target.landing):
        return {}
    others = OtherFolders(target, _read_whole(tables))
    landing = others.landing
    named = [(t.table, source.path) for t in tables for source in t.feeds if source.path]
    there = ask_each(lambda folder: folder.is_dir(), [landing / path for _, path in named])
    warnings: dict[str, list[str]] = {}
    for (table, path), exists in zip(named, there, strict=True):
        if not exists:
            text = f"the landing folder {landing / path} does not exist"
            warnings.setdefault(table, []).append(f"{text}; do: {others.tell_where_to_look(path)}")
    return warnings


def _read_whole(tables: Sequence[Table]) -> set[str]:
    """The landing folders that a source reads whole: not only one topic of them."""
    sources = [source for table in tables for source in table.feeds]
    return {s.path.strip("/") for s in sources if s.path is not None and s.topic is None}


@dataclass(frozen=True)
class OtherFolders:
    """The folders in the landing folder; those in `read` are another table's."""

    target: Target
    read: Collection[str]

    @cached_property
    def landing(self) -> Place:
        """The landing folder itself."""
        return to_place(self.target, self.target.landing)

    @cached_property
    def full(self) -> list[str]:
        """The names of those with complete files that may have been meant."""
        folders = [f for f in list_folder(self.landing) if f.name not in self.read]
        return [f.name for f in folders if any(map(_is_complete, list_folder(f)))]

    def tell_where_to_look(self, path: str) -> str:
        """What to do, with the folder that was probably meant if there is one."""
        last = path.strip("/").rpartition("/")[2]
        others = [name for name in self.full if name != path]
        close = get_close_matches(path, others, n=1) or [name for name in others if name == last]
        if close:
            return f"correct source.path, is it {close[0]}?"
        return "drop files there, or correct source.path"


@dataclass(frozen=True)
class BronzeLog:
    """The log of a feed's bronze table, and how many records that has; None if unknown."""

    rows: int | None
    log: TableLog

    @cached_property
    def topics(self) -> set[str] | None:
        """The topics of the records; None if the table has too many files to read."""
        values = read_values(self.log, ["_topic"])
        return None if values is None else {topic for (topic,) in values if topic is not None}


def _find_warning(
    target: Target, source: Source, log: BronzeLog | None, others: OtherFolders
) -> str | None:
    warning = None
    if source.path is not None and is_reached(target, target.landing):
        if not (others.landing / source.path).is_dir():
            return None
        warning = _look_into_folder(source.path, source, bool(log and log.rows), others)
    topic = source.topic or (source.kafka.topic if source.kafka else None)
    if source.kafka and source.kafka.shared:
        return None  # the brokers named the topic
    if warning is None and topic is not None and log and (log.rows or source.kafka):
        warning = _look_for_topic(topic, source, log)
    return warning


def _look_into_folder(
    path: str, source: Source, came_before: bool, others: OtherFolders
) -> str | None:
    """What is wrong with a landing folder, or with its newest snapshot; None if nothing is."""
    folder = others.landing / path
    files = [] if came_before else [file for file in list_below(folder) if file.is_file()]
    if came_before or any(map(_is_complete, files)):
        return _find_empty_snapshot(folder, source) if source.format == "snapshot" else None
    if files:
        left = f"{files[0].name} is left alone, as if it were still being written"
        action = "rename it, without . or _ in front and .tmp behind"
        return f"the landing folder {folder} has no complete file: {left}; do: {action}"
    return f"the landing folder {folder} is empty; do: {others.tell_where_to_look(path)}"


def _is_complete(file: Place) -> bool:
    return file.is_file() and is_finished(file.name)


def _look_for_topic(topic: str, source: Source, log: BronzeLog) -> str | None:
    """A warning if bronze has no record of the topic."""
    if log.rows == 0:
        return f"topic {topic} has brought no record; do: check its name and the connector"
    there = log.topics if source.topic is not None else None
    if there is None or topic in there:
        return None
    close = get_close_matches(topic, sorted(there), n=1)
    listed = ", ".join(sorted(there)[:MOST_NAMED]) + (", …" if len(there) > MOST_NAMED else "")
    meant = f"did you mean {close[0]}?" if close else f"the feed has {listed or 'no topic'}"
    return f"topic {topic} has brought no record: {meant}; do: correct source.topic"


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_LARGEST = 65_536
_PARQUET, _GZIP = b"PAR1", b"\x1f\x8b"
_BLANKS = " \t\r\n\f\ufeff\x00\x1a"


def _find_empty_snapshot(folder: Place, source: Source) -> str | None:
    """A warning if no complete file of the newest date in a snapshot's folder has a row."""
    by_day: dict[str, list[Place]] = {}
    for file in filter(_is_complete, list_below(folder)):
        day = parts_below(file, folder)[0]
        if _DAY.fullmatch(day):
            by_day.setdefault(day, []).append(file)
    newest = max(by_day, default=None)
    if newest is None or not all(_has_no_row(file, source) for file in by_day[newest]):
        return None
    text = f"the snapshot of {newest} holds no row, so it changes nothing"
    return f"{text}; do: if the export failed, drop it again under another name"


def _has_no_row(file: Place, source: Source) -> bool:
    try:
        if file.stat().st_size > _LARGEST:
            return False
        content = file.read_bytes()
        content = gzip.decompress(content) if content.startswith(_GZIP) else content
        if content.startswith(_PARQUET):
            import pyarrow.parquet as pq

            with open_file(file) as opened:
                return bool(pq.read_metadata(opened).num_rows == 0)
    except (OSError, EOFError, ValueError, zlib.error):
        return False
    return _has_no_text(content, source)


def _has_no_text(content: bytes, source: Source) -> bool:
    encoding = source.csv.encoding or encoding_by_mark(content[:100]) or "utf-8"
    text = content.decode(encoding, errors="replace").strip(_BLANKS)
    if source.file_format == "csv" and source.csv.header:
        return "\n" not in text and "\r" not in text
    return not text or (source.file_format == "json" and not text.strip("[] \t\r\n"))
