"""The mark of a settled lake: if nothing has changed since, a run has nothing to do.

A run over all layers that left no work writes `lake/_settled.json`. It has all that a run depends
on: the version of the lakehouse, the configuration, every file in the landing folders, and the
newest commit of every table. The next run compares it with the lake, without Spark. Any difference,
or anything that cannot be read, means that there may be work.
"""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version

from lakehouse.config.strict import Strict
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Target
from lakehouse.places.place import Place, ask_each, list_folder, to_place, write_whole
from lakehouse.storage.landing import list_files

FILE = "_settled.json"


class Inputs(Strict):
    """What a run depends on: the version that runs, and digests of configuration and landing."""

    version: str
    configuration: str
    landing: str


class PendingTable(Strict):
    """Pending changes of a table, to be merged later; times are in seconds since 1970.

    Attributes:
        table: the table.
        records: how many there are.
        since: when the last merge began.
        due_at: when they are to be merged.
    """

    table: str
    records: int
    since: float
    due_at: float


class Mark(Strict):
    """The mark that a run writes if it leaves no work.

    Attributes:
        inputs: what it depended on, read before bronze listed any file.
        lake: a digest of the tables and views of the lake when the run ended.
        marked_at: when the run ended, in seconds since 1970.
        waiting: the pending changes.
        warnings: pairs of table and warning of the run.
    """

    inputs: Inputs
    lake: str
    marked_at: float
    waiting: list[PendingTable]
    warnings: list[tuple[str, str]]

    def holds(self, inputs: Inputs, lake: str, now: float) -> bool:
        """Whether nothing has changed, and no pending changes are due."""
        same = self.inputs == inputs and self.lake == lake and self.marked_at <= now
        return same and all(each.since <= now < each.due_at for each in self.waiting)


def inputs_of(target: Target, tables: Sequence[Table], folders: Iterable[str]) -> Inputs:
    """The inputs of a run of all tables, with their landing folders.

    Raises:
        OSError: a folder cannot be listed.
    """
    texts = [target.model_dump_json(), *(table.model_dump_json() for table in tables)]
    landing = [[folder, list_files(target, folder)] for folder in sorted(set(folders))]
    installed = version("cdc-lakehouse")
    return Inputs(version=installed, configuration=_digest_of(texts), landing=_digest_of(landing))


def digest_of_lake(target: Target) -> str:
    """A digest of every table's newest commit and of every file beside the tables.

    Raises:
        OSError: a folder cannot be listed.
    """
    folders = (list_folder(to_place(target, target.lake, layer)) for layer in LAYERS)
    return _digest_of(ask_each(_newest_state, sorted(entries, key=str)) for entries in folders)


def read_mark(target: Target) -> Mark | None:
    """The mark; None if there is none that can be read."""
    with suppress(OSError, ValueError):
        return Mark.model_validate_json(to_place(target, target.lake, FILE).read_bytes())
    return None


def write_mark(target: Target, mark: Mark) -> None:
    """Writes the mark in one rename."""
    write_whole(to_place(target, target.lake, FILE), mark.model_dump_json().encode())


def remove_mark(target: Target) -> None:
    """Removes the mark, before a run changes anything."""
    to_place(target, target.lake, FILE).unlink(missing_ok=True)


def _newest_state(entry: Place) -> tuple[object, ...]:
    """The name of a table and its newest commit, or of another file, and values of that file.

    The values differ if the file was written again, restored or replaced.
    """
    newest: Place | None = entry
    if entry.is_dir():
        commits = (file for file in list_folder(entry / "_delta_log") if file.suffix == ".json")
        newest = max(commits, key=lambda file: file.name, default=None)
    if newest is None:
        return entry.name, None, None
    of = newest.stat()
    return entry.name, newest.name, (of.st_size, of.st_mtime_ns, of.st_ctime_ns, of.st_ino)


def _digest_of(parts: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
