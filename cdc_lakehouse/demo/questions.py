"""The demo's captured events, and the questions it asks of what came out.

The events were captured from a PostgreSQL shop by Debezium: two snapshots (the first one was
interrupted), streamed changes with repeats after a crash, key changes, new columns. One change of
customer 1 is held back and dropped last, in a file of its own, so that it arrives late.
"""

import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError

EVENTS = "events/shop.jsonl.gz"
FOLDER = "shop"
FIRST, LATE = "1-shop.jsonl", "2-late.jsonl"
EXPLAINED: Mapping[str, str] = {"id": "1"}
"""The key of `customers` that is explained, and whose change of `LATE_AT` arrives late."""
LATE_TOPIC, LATE_AT = "shop.shop.customers", "91292720"
"""Topic and position in the source's log of the record that is held back."""
OPERATIONS = {
    "r": "read by snapshots",
    "c": "inserts",
    "u": "updates",
    "d": "deletes",
    "t": "truncates",
}
TOMBSTONES, OTHERS = "log-compaction tombstones", "others"


class Dropped(NamedTuple):
    """What the demo dropped: the folder, and how many records of which kind."""

    folder: Path
    records: int
    kinds: Mapping[str, int]


class Question(NamedTuple):
    """A name, the tables it needs, and the query."""

    name: str
    tables: frozenset[str]
    query: str


HISTORY = Question(
    "history",
    frozenset({"customers"}),
    "SELECT tier, prefs, date_format(valid_from, 'HH:mm:ss.SSS') AS valid_from,"
    " date_format(valid_to, 'HH:mm:ss.SSS') AS valid_to FROM gold.customers_history"
    f" WHERE id = {EXPLAINED['id']} ORDER BY customers_history.valid_from",
)
DELETED = Question(
    "deleted",
    frozenset({"orders"}),
    "SELECT id, status, date_format(valid_from, 'HH:mm:ss.SSS') AS valid_from,"
    " date_format(valid_to, 'HH:mm:ss.SSS') AS valid_to FROM gold.orders_history"
    " WHERE id = 2 AND id NOT IN (SELECT id FROM gold.orders)",
)


def select_shop_tables(tables: Sequence[Table]) -> list[Table]:
    """The tables that read the demo's folder.

    Raises:
        ConfigurationError: there are none.
    """
    mine = [table for table in tables if any(feed.path == FOLDER for feed in table.feeds)]
    if not mine:
        expected = f"tables with source.path: {FOLDER}"
        action = "leave --conf and --table out; where a project lies, go to an empty folder first"
        raise ConfigurationError("command line", "--conf", "no such table", expected, action)
    return mine


def select_questions(tables: Sequence[Table]) -> dict[str, str]:
    """The queries that these tables can answer, by name."""
    there = {table.table for table in tables}
    return {q.name: q.query for q in (HISTORY, DELETED) if q.tables <= there}


def place_events(target: Target, tables: Sequence[Table]) -> Dropped:
    """Drop the events of these tables' topics into the landing folder, unless they lie there.

    Raises:
        ConfigurationError: the target is not a local one.
    """
    if target.kind != "local":
        expected, action = "a local target: the demo brings its own Spark", "leave --target out"
        raise ConfigurationError("command line", "--target", target.name, expected, action)
    folder = Path(target.landing, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    kept = _read_events({feed.topic for table in tables for feed in table.feeds})
    _write_lines(folder / FIRST, [line for line, record in kept if not _is_late(record)])
    _write_lines(folder / LATE, [line for line, record in kept if _is_late(record)])
    kinds = Counter(_find_kind(record["value"]) for _, record in kept)
    order = (*OPERATIONS.values(), TOMBSTONES, OTHERS)
    return Dropped(folder, len(kept), {kind: kinds[kind] for kind in order if kinds[kind]})


def _read_events(topics: Collection[str | None]) -> list[tuple[bytes, dict[str, Any]]]:
    """The captured records of some topics, each with its line; None stands for all topics."""
    packed = files("cdc_lakehouse.demo").joinpath(EVENTS).read_bytes()
    read = [(line, json.loads(line)) for line in gzip.decompress(packed).splitlines(True)]
    return [(line, record) for line, record in read if None in topics or record["topic"] in topics]


def copy_configuration(conf: Path) -> Path:
    """The folder; the demo's own tables and target are copied there where it has no target."""
    if not (conf / "targets").is_dir():
        packaged = Path(str(files("cdc_lakehouse.demo"))) / "conf"
        shutil.copytree(packaged, conf, dirs_exist_ok=True)
    return conf


def _is_late(record: Mapping[str, object]) -> bool:
    value = record["value"]
    source = value.get("source") if isinstance(value, dict) else None
    position = source.get("lsn") if isinstance(source, dict) else None
    return record["topic"] == LATE_TOPIC and str(position) == LATE_AT


def _find_kind(value: object) -> str:
    if value is None:
        return TOMBSTONES
    return OPERATIONS.get(str(value.get("op")), OTHERS) if isinstance(value, dict) else OTHERS


def _write_lines(file: Path, lines: Sequence[bytes]) -> None:
    """Write a file in one step, as a source does; one of the same size is left alone."""
    text = b"".join(lines)
    if text and (not file.exists() or file.stat().st_size != len(text)):
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        unfinished.write_bytes(text)
        unfinished.rename(file)
