"""Landing files of captured records, and the state of a capture on this machine.

A record is acknowledged to the engine once its file is there as a whole. What the engine keeps
itself, its file of offsets and the history of the tables' shapes, is not written in one step: both
are copied aside after each acknowledgement, and a torn one is replaced by its copy.
"""

import fcntl
import gzip
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lakehouse.config.strict import Strict
from lakehouse.config.target import Target
from lakehouse.errors import LakehouseError
from lakehouse.places.place import Place, list_folder, to_place

LARGEST = 32 << 20
"""Bytes of a file's text, before it is compressed: one that has more is complete."""
SUFFIX = ".jsonl.gz"
_FIRST = ("INITIAL", "TRUE")
"""What the offsets say of a first snapshot; those of single tables are INCREMENTAL or BLOCKING."""


class CaptureRefused(LakehouseError):
    """The capture must not go on, or would lose changes; the message says what to do."""

    def __init__(self, problem: str, action: str) -> None:
        self.found = problem
        super().__init__(f"capture\n  found:    {problem}\n  do:       {action}")


def write_synced(file: Place, content: bytes) -> None:
    """Writes a file that is there as a whole or not at all, even after the machine loses power."""
    if not isinstance(file, Path):
        file.write_bytes(content)
        return
    aside = file.with_name(f".{file.name}.tmp")
    with aside.open("wb", buffering=0) as out:
        out.write(content)
        os.fsync(out)
    aside.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Position(Strict):
    """How far a capture has come, written before the engine hears of it.

    Attributes:
        next: the offset of the next record; offsets are the order of arrival.
        lsn: the newest place in PostgreSQL's log that may be acknowledged to the server.
        tables: what is captured; None before the first snapshot.
        newest: when the newest file was written, in seconds since 1970.
        committed: the newest record's commit at the source, in seconds since 1970.
    """

    next: int
    lsn: int = 0
    tables: list[str] | None = None
    newest: float | None = None
    committed: float | None = None


class State:
    """The folder of one capture, which one process at a time may use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.offsets, self.history = folder / "offsets", folder / "schema-history"
        self.kept_offsets = _copy_of(self.offsets)
        self._position = folder / "position.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, no other process of this machine uses the folder.

        Raises:
            CaptureRefused: another one does.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                problem = f"process {lock.read().strip()} captures with {self.folder} already"
                raise CaptureRefused(problem, "stop that one first") from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def read(self) -> Position | None:
        """The position; None before the first start."""
        with suppress(FileNotFoundError):
            return Position.model_validate_json(self._position.read_bytes())
        return None

    def write(self, position: Position) -> None:
        """Replaces the position in one step."""
        write_synced(self._position, position.model_dump_json().encode())

    def forget(self) -> None:
        """Removes what the engine kept, so that it takes a snapshot."""
        for file in (self.offsets, self.history):
            for each in (file, _copy_of(file)):
                each.unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the position, so that the next capture is the first."""
        self._position.unlink(missing_ok=True)

    def keep(self) -> None:
        """Copies the engine's files aside where they have changed."""
        for file in (self.offsets, self.history):
            if file.exists():
                content, copy = file.read_bytes(), _copy_of(file)
                if not copy.exists() or copy.read_bytes() != content:
                    write_synced(copy, content)

    def mend(self, is_offsets: Callable[[Path], bool]) -> list[str]:
        """Replaces torn files by their copies; returns the names of those that it replaced."""
        mended = []
        for file, is_whole in ((self.offsets, is_offsets), (self.history, _is_history)):
            copy = _copy_of(file)
            if copy.exists() and not (file.exists() and is_whole(file)):
                write_synced(file, copy.read_bytes())
                mended.append(file.name)
        return mended


def read_places(offsets: Path) -> list[dict[str, Any]]:
    """The places in the log in a file of offsets: JSON objects in a map that Java has written."""
    text = offsets.read_text(encoding="latin-1") if offsets.exists() else ""
    places = []
    for start in re.finditer(r'\{"', text):
        with suppress(ValueError):
            places.append(json.JSONDecoder().raw_decode(text, start.start())[0])
    return [place for place in places if "server" not in place]


def is_in_snapshot(offsets: Path) -> bool:
    """Whether the first snapshot is not complete, or has not begun, by a file of offsets."""
    places = read_places(offsets)
    return not places or any(
        str(place.get("snapshot")).upper() in _FIRST and not place.get("snapshot_completed")
        for place in places
    )


def reads_rows(offsets: Path) -> bool:
    """Whether the rows of a new table are being read, beside the log."""
    return any("incremental_snapshot_collections" in place for place in read_places(offsets))


def _copy_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.kept")


def _is_history(file: Path) -> bool:
    """Whether the last line of the tables' history is whole: lines are only added."""
    text = file.read_bytes()
    try:
        return text.endswith(b"\n") and bool(json.loads(text.rstrip(b"\n").rpartition(b"\n")[2]))
    except ValueError:
        return False


class LandingFiles:
    """Writes records as gzipped JSON lines; a file's name has the offsets of its records."""

    def __init__(self, target: Target, landing: str, next_offset: int | None) -> None:
        """Go on after the newest file.

        A capture without a state goes on from the clock, in microseconds: a count from zero would
        place its records before those of an earlier capture.
        """
        self.folder = to_place(target, landing)
        if isinstance(self.folder, Path):
            self.folder.mkdir(parents=True, exist_ok=True)
            for torn in self.folder.glob(f".*{SUFFIX}.tmp"):
                torn.unlink()
        names = [file.name for file in list_folder(self.folder) if file.name.endswith(SUFFIX)]
        ends = [name.removesuffix(SUFFIX).rpartition("-")[2] for name in names]
        behind = [int(end) + 1 for end in ends if end.isdigit()]
        self.next = max([time.time_ns() // 1000 if next_offset is None else next_offset, *behind])
        self.written = 0

    def write(self, records: Sequence[tuple[str, str, str, str]]) -> None:
        """Writes records: topic, key, value and headers, the last three as JSON."""
        at, now = self.next, time.time_ns() // 1_000_000
        lines, size = list[str](), 0
        for topic, key, value, headers in records:
            lines.append(
                f'{{"topic":{json.dumps(topic)},"partition":0,"offset":{at},"timestamp":{now},'
                f'"headers":{headers},"key":{key},"value":{value}}}\n'
            )
            at, size = at + 1, size + len(lines[-1])
            if size > LARGEST:
                self._complete(lines, at)
                lines, size = [], 0
        if lines:
            self._complete(lines, at)

    def _complete(self, lines: Sequence[str], following: int) -> None:
        name = f"{self.next:018d}-{following - 1:018d}{SUFFIX}"
        text = "".join(lines).encode("utf-8", "surrogatepass")
        write_synced(self.folder / name, gzip.compress(text, 3, mtime=0))
        self.next, self.written = following, self.written + 1


def headers_of(headers: Mapping[str, str]) -> str:
    """Headers as a JSON object; their values are JSON already."""
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in headers.items()) + "}"
