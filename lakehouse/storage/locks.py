"""One run at a time per table: a lock file in the lake says who writes it.

The file `lake/_locks/NAME.lock` holds the holder and a beat that its run counts up. A lock is stale
when its process is gone, or, where the holder is on another machine, when the beat has stood still
for several beats while it was watched. No clock is compared with another, so none can be wrong.
A target with a catalog has no such files: there its one job keeps its runs apart.

The tables that all runs write to, such as the ledger, have one lock that is held for a commit only.
A lake in an object store has these locks too, written by the store's own comparison.
"""

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from pydantic import ValidationError

from lakehouse.config.table import Strict
from lakehouse.config.target import Target
from lakehouse.places.lock_files import LockFile, lock_file
from lakehouse.places.settings import is_object_url

BEAT_SECONDS = 5.0
MISSED_BEATS = 4
GLANCE_SECONDS = 0.05
AT_ONCE = 16
"""Locks that are taken or let go at once: a store answers after some 30 ms."""


class Holder(Strict):
    """A run that holds a lock: where it runs, since when, and how often it has told so."""

    host: str
    pid: int
    born: str
    run_id: str
    since: datetime
    beat: int = 0

    def __str__(self) -> str:
        """As a refused run tells it."""
        return f"run {self.run_id} on {self.host}, process {self.pid}, since {self.since:%F %T} UTC"


@contextmanager
def held(target: Target, names: Iterable[str], run_id: str) -> Iterator[dict[str, Holder]]:
    """Hold the locks of these names; gives the names that others hold, with their holders.

    Locks that could be had are let go at the end.
    """
    if target.catalog:
        yield {}
        return
    me = _me(run_id)
    files = {name: lock_file(target, name) for name in names}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        holders = pool.map(lambda file: _taken(file, me, _is_stale), files.values())
        found = dict(zip(files, holders, strict=True))
    refused = {name: who for name, who in found.items() if who is not None}
    with _beating([file for name, file in files.items() if name not in refused], me):
        yield refused


@contextmanager
def sharing(target: Target) -> Iterator[None]:
    """Hold back every other commit to the tables that runs share.

    On a local disk a commit looks whether its version is there and then renames itself to that
    place: of two at once, one would be gone. The system lets go of a killed process's lock. In an
    object store the lock is one as of a table, for the commits of all machines.
    """
    if target.catalog:
        yield
        return
    if is_object_url(target.lake):
        me, file = _me(f"commit-{uuid.uuid4().hex}"), lock_file(target, "commits")
        is_stale = _Watch()
        while _taken(file, me, is_stale) is not None:
            time.sleep(GLANCE_SECONDS)
        with _beating([file], me):
            yield
        return
    folder = Path(target.lake, "_locks")
    folder.mkdir(parents=True, exist_ok=True)
    with Path(folder, "commits").open("ab") as file_of_all:
        fcntl.flock(file_of_all, fcntl.LOCK_EX)
        yield


def _taken(
    file: LockFile, me: Holder, is_stale: Callable[[LockFile, str, Holder], bool]
) -> Holder | None:
    """Take the lock; None when it is ours, else who holds it."""
    text = me.model_dump_json()
    while not file.create(text):
        seen = file.read()
        if seen is None:
            continue
        if seen == text:  # an answer that was lost: the store took it all the same
            break
        other = _holder(seen)
        if not is_stale(file, seen, other):
            return other
        if file.take_over(text, seen):
            break
    return None


def _is_stale(file: LockFile, seen: str, holder: Holder) -> bool:
    """Whether its process is gone, or its beat has stood still while this run looked on."""
    if holder.host == socket.gethostname():
        return born(holder.pid) != holder.born
    time.sleep(BEAT_SECONDS * MISSED_BEATS)
    return file.read() == seen


class _Watch:
    """The same without standing by, for whoever asks again and again."""

    def __init__(self) -> None:
        self._seen, self._since = "", 0.0

    def __call__(self, file: LockFile, seen: str, holder: Holder) -> bool:
        if holder.host == socket.gethostname():
            return born(holder.pid) != holder.born
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since > BEAT_SECONDS * MISSED_BEATS


@contextmanager
def _beating(files: list[LockFile], me: Holder) -> Iterator[None]:
    """Has the locks tell that their run is alive, and lets them go at the end."""
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(files, me, ended), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda file: _let_go(file, me), files))


def _let_go(file: LockFile, me: Holder) -> None:
    with suppress(OSError):  # on a read-only disk: it is stale with its process
        seen = _own_text(file, me)
        if seen is not None:
            file.let_go(seen)


def _beat(files: list[LockFile], me: Holder, ended: threading.Event) -> None:
    """Count up until it has ended; a full disk leaves out beats, for everybody who might look."""
    told = me
    while not ended.wait(BEAT_SECONDS):
        told = told.model_copy(update={"beat": told.beat + 1})
        for file in files:
            with suppress(OSError):
                seen = _own_text(file, me)
                if seen is not None:
                    file.replace(told.model_dump_json(), seen)


def _own_text(file: LockFile, me: Holder) -> str | None:
    """What the lock says while it is this run's; None once it is not."""
    text = file.read()
    now = _holder(text or "")
    return text if (now.run_id, now.pid, now.born) == (me.run_id, me.pid, me.born) else None


def _holder(text: str) -> Holder:
    """The holder that a lock tells. One that cannot be read has no living holder."""
    try:
        return Holder.model_validate_json(text)
    except ValidationError:
        nobody = datetime.fromtimestamp(0, timezone.utc)
        host = socket.gethostname()
        return Holder(host=host, pid=0, born="never", run_id="unknown", since=nobody)


def _me(run_id: str) -> Holder:
    pid, now = os.getpid(), datetime.now(timezone.utc)
    host = socket.gethostname()
    return Holder(host=host, pid=pid, born=born(pid) or "", run_id=run_id, since=now)


def born(pid: int) -> str | None:
    """What tells a process from a later one of the same number; None when there is none.

    Its start in clock ticks since boot, and the boot, where the system tells; else only its number.
    """
    if not Path("/proc/self/stat").exists():
        return _by_signal(pid)
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if after_name[0] == "Z":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{after_name[19]} {boot.read_text().strip() if boot.exists() else ''}"


def _by_signal(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return str(pid)
    return str(pid)
