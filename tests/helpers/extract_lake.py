"""Extracts into a lake without the stream that finds them: files are read into bronze directly."""

import shutil
from pathlib import Path
from typing import Any

from bronze import storage
from bronze.feeds import list_feeds
from bronze.files import batches
from bronze.files.listing import DroppedFile, in_order
from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from silver import job as silver
from tests.helpers import lakes

FOLDER = "s"


def table(mode: str = "full", file_format: str = "json", **options: object) -> Table:
    source = {"format": "snapshot", "path": FOLDER, "mode": mode, "file_format": file_format}
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]} | options)


def land(target: Target, day: str, name: str, lines: list[str]) -> Path:
    """Drops a file of one extract."""
    lakes.land(target, f"{FOLDER}/{day}", name, lines)
    return Path(target.landing, FOLDER, day, name)


def copy(target: Target, day: str, file: Path, name: str | None = None) -> Path:
    place = Path(target.landing, FOLDER, day)
    place.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(file, place / (name or file.name)))


def ingest(lake: Lake, config: Table, number: int, *files: Path) -> None:
    """Appends files to bronze as one batch."""
    feed = list_feeds([config])[0]
    storage.prepare_table(lake, feed)
    dropped = in_order(_dropped(file) for file in files)
    batches.append_readable(lake, feed, dropped, number)


def _dropped(file: Path) -> DroppedFile:
    found = file.stat()
    return DroppedFile(f"file:{file}", found.st_mtime_ns // 1_000_000, found.st_size)


def apply(lake: Lake, config: Table) -> dict[str, int]:
    """Applies what is in bronze; the counts of the table's ledger entry."""
    entry = silver.apply(lake, [config], "run", lakes.quiet)[0]
    assert entry.message is None
    return entry.counts


def rows(lake: Lake, config: Table, name: str) -> list[dict[str, Any]]:
    """The rows of a gold table, published anew."""
    published = gold.publish(lake, [config], "run", lakes.quiet)
    assert [entry.message for entry in published] == [None]
    return lakes.rows(lake, name)
