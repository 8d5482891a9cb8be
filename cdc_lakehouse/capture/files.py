"""Landing files of captured records, and the state of a capture on this machine.

A record is acknowledged to the engine once its file is there as a whole, and the state says so. The
engine's own file of offsets, which is not written in one step, is made anew from the state at each
start; of the history of the tables' columns a copy is kept.
"""

import fcntl
import gzip
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lakehouse.config.strict import Strict
from lakehouse.config.target import Target
from lakehouse.errors import LakehouseError
from lakehouse.places.place import list_folder, to_place, write_whole

LARGEST = 32 << 20
"""Characters of a file's text, before it is compressed: one that has more is complete."""
SUFFIX = ".jsonl.gz"


class CaptureRefused(LakehouseError):
    """The capture must not go on, or would lose changes; the message says what to do."""

    def __init__(self, problem: str, action: str) -> None:
        self.found = problem
        super().__init__(f"capture\n  found:    {problem}\n  do:       {action}")


class Position(Strict):
    """How far a capture has come, written before the engine hears of it.

    Attributes:
        next: the offset of the next record; offsets are the order of arrival.
        offset: the engine's place in the database's log; empty before the first record.
        partition: the partition (database) that `offset` is a place in.
        lsn: the newest place in PostgreSQL's log that may be acknowledged to the server.
        tables: what is captured; None before the first snapshot.
        newest: when the newest file was written, in seconds since 1970.
        committed: the newest record's commit at the source, in seconds since 1970.
        unconverted: how many values Debezium could not convert since the snapshot.
        column: of which column the last of them was.
    """

    next: int | None = None
    offset: Mapping[str, Any] = {}
    partition: Mapping[str, Any] = {}
    lsn: int = 0
    tables: list[str] | None = None
    newest: float | None = None
    committed: float | None = None
    unconverted: int = 0
    column: str = ""

    @property
    def is_in_snapshot(self) -> bool:
        """Whether the first snapshot is not complete, or has not begun."""
        first = str(self.offset.get("snapshot")).upper() in ("INITIAL", "TRUE")
        return not self.offset or (first and not self.offset.get("snapshot_completed"))

    @property
    def reads_rows(self) -> bool:
        """Whether the rows of a new table are being read, beside the log."""
        return "incremental_snapshot_collections" in self.offset


class State:
    """The folder of one capture, which one process at a time may use; `position` is in it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.offsets, self.history = self.folder / "offsets", self.folder / "schema-history"
        self._file, self._copy = self.folder / "state.json", self.folder / "schema-history.kept"
        self.position = Position()

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
            print(os.getpid(), file=lock, flush=True)
            with suppress(FileNotFoundError, ValueError):  # what cannot be read is as good as lost
                self.position = Position.model_validate_json(self._file.read_bytes())
            yield

    def note(self, **changed: object) -> None:
        """Replaces some of the position, in one step."""
        following = self.position.model_copy(update=changed)
        if following != self.position:
            write_whole(self._file, following.model_dump_json().encode(), is_synced=True)
            self.position = following

    def forget(self, **changed: object) -> None:
        """Forgets the place in the log, so that a snapshot is taken."""
        for file in (self.offsets, self.history, self._copy):
            file.unlink(missing_ok=True)
        self.note(offset={}, partition={}, lsn=0, unconverted=0, column="", **changed)

    def keep_history(self) -> None:
        """Copies the whole lines of the history of the tables' columns, where it has become longer.

        The engine may be writing the last line.
        """
        if self.history.exists():
            size = self._copy.stat().st_size if self._copy.exists() else 0
            if self.history.stat().st_size != size:
                lines, ends, _ = self.history.read_bytes().rpartition(b"\n")
                write_whole(self._copy, lines + ends, is_synced=True)

    def mend_history(self) -> bool:
        """Replaces the history by its copy where its last line is torn, and says whether it was."""
        lines = self.history.read_bytes().splitlines(True) if self.history.exists() else []
        with suppress(ValueError, IndexError):
            if not self._copy.exists() or (lines[-1].endswith(b"\n") and json.loads(lines[-1])):
                return False
        write_whole(self.history, self._copy.read_bytes(), is_synced=True)
        return True


class LandingFiles:
    """Writes records as gzipped JSON lines; a file's name has the offsets of its records."""

    def __init__(self, target: Target, landing: str, next_offset: int | None) -> None:
        """Go on after the newest file.

        A capture without a state goes on from the clock, in microseconds: a count from zero would
        place its records before those of an earlier capture.
        """
        self.folder = to_place(target, landing)
        files = list_folder(self.folder)
        for torn in [file for file in files if SUFFIX in file.name and file.name.endswith(".tmp")]:
            torn.unlink(missing_ok=True)
        ends = [file.name.removesuffix(SUFFIX).rpartition("-")[2] for file in files]
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
        write_whole(self.folder / name, gzip.compress(text, 3, mtime=0), is_synced=True)
        self.next, self.written = following, self.written + 1
