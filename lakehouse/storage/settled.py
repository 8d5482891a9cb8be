"""The mark of a settled lake: whoever finds nothing changed since knows that a run has no work.

A run over all layers that ended with everything done leaves `lake/_settled.json`. It names all that
a run depends on: the version of the lakehouse, the configuration, every file in the landing
folders, and the newest commit of every table of the lake. The next run compares it with what is
there, without Spark. Any difference, and whatever cannot be read, means that there may be work.
"""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version

from lakehouse.config.table import Strict, Table
from lakehouse.config.target import LAYERS, Target
from lakehouse.places.place import Place, ask_each, list_folder, place, write_whole
from lakehouse.storage.landing import list_files

FILE = "_settled.json"


class Inputs(Strict):
    """What a run depends on: the version that runs, and digests of configuration and landing."""

    version: str
    configuration: str
    landing: str


class PendingTable(Strict):
    """Records of a table's change log that are merged later; the times are in seconds since 1970.

    Attributes:
        table: the table.
        records: how many wait.
        since: when the last merge began.
        due_at: from when on a run merges them.
    """

    table: str
    records: int
    since: float
    due_at: float


class Mark(Strict):
    """What a run left behind that had nothing left to do.

    Attributes:
        inputs: what it depended on, looked at before bronze listed any file.
        lake: a digest of the tables and views of the lake when the run had ended.
        marked_at: when that was, in seconds since 1970.
        waiting: what is to be merged later.
        warnings: the tables that the run warned of, each with the warning.
    """

    inputs: Inputs
    lake: str
    marked_at: float
    waiting: list[PendingTable]
    warnings: list[tuple[str, str]]

    def holds(self, inputs: Inputs, lake: str, now: float) -> bool:
        """Whether nothing is different now, and nothing is due."""
        same = self.inputs == inputs and self.lake == lake and self.marked_at <= now
        return same and all(each.since <= now < each.due_at for each in self.waiting)


def inputs_of(target: Target, tables: Sequence[Table], folders: Iterable[str]) -> Inputs:
    """What a run of all tables depends on, whose landing folders these are.

    Raises:
        OSError: a folder cannot be listed.
    """
    texts = [target.model_dump_json(), *(table.model_dump_json() for table in tables)]
    landing = [[folder, list_files(target, folder)] for folder in sorted(set(folders))]
    installed = version("cdc-lakehouse")
    return Inputs(version=installed, configuration=_digest(texts), landing=_digest(landing))


def digest_of_lake(target: Target) -> str:
    """A digest of every table's newest commit and of every file that stands beside the tables.

    Raises:
        OSError: a folder cannot be listed.
    """
    return _digest(_tables_of(place(target, target.lake, layer)) for layer in LAYERS)


def read_mark(target: Target) -> Mark | None:
    """The mark; None where there is none, or one that cannot be read."""
    with suppress(OSError, ValueError):
        return Mark.model_validate_json(place(target, target.lake, FILE).read_bytes())
    return None


def write_mark(target: Target, mark: Mark) -> None:
    """Puts the mark there in one rename."""
    write_whole(place(target, target.lake, FILE), mark.model_dump_json().encode())


def remove_mark(target: Target) -> None:
    """Takes the mark away, before a run changes anything."""
    place(target, target.lake, FILE).unlink(missing_ok=True)


def _tables_of(layer: Place) -> list[tuple[object, ...]]:
    """Of each table its newest commit, of each other file in the layer's folder its state."""
    return ask_each(_newest_of, sorted(list_folder(layer), key=str))


def _newest_of(entry: Place) -> tuple[object, ...]:
    newest = _newest_commit(entry / "_delta_log") if entry.is_dir() else entry
    return entry.name, newest and newest.name, newest and _state(newest)


def _newest_commit(log: Place) -> Place | None:
    """The file of a table's newest commit; None without any."""
    commits = (file for file in list_folder(log) if file.suffix == ".json")
    return max(commits, key=lambda file: file.name, default=None)


def _state(file: Place) -> tuple[int, ...]:
    """What differs when a file was written anew, restored, or is another of the same name."""
    state = file.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def _digest(parts: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(part).encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
