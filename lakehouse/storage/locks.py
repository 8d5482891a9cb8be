"""Locks: one run at a time per table.

The file `lake/_locks/NAME.lock` has the holder and a counter (beat) that the holder's run raises. A
lock is stale if its process has ended or, for a holder on another machine, if the beat did not
change while this run watched it for several beats. Clocks of machines are not compared. In a
catalog the locks are rows of a table, see `lakehouse.run.lease`.

The tables that all runs write to, such as the ledger, share one lock that is held per commit. In
object stores locks are conditional writes.
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

from lakehouse.config.strict import Strict
from lakehouse.config.target import Target
from lakehouse.places.lock_files import LockFile, lock_file
from lakehouse.places.settings import is_object_url

BEAT_SECONDS = 5.0
MISSED_BEATS = 4
GLANCE_SECONDS = 0.05
AT_ONCE = 16
"""Locks that are taken or released in parallel: a store answers after some 30 ms."""


class Holder(Strict):
    """A run that holds a lock: where it runs, since when, and its beat."""

    host: str
    pid: int
    born: str
    run_id: str
    since: datetime
    beat: int = 0

    def __str__(self) -> str:
        """The holder as the message of a refused run has it."""
        return f"run {self.run_id} on {self.host}, process {self.pid}, since {self.since:%F %T} UTC"


@contextmanager
def hold_locks(target: Target, names: Iterable[str], run_id: str) -> Iterator[dict[str, Holder]]:
    """Takes the locks of these names; yields the names that others hold, with their holders.

    The taken locks are released at the end.
    """
    me = _this_holder(run_id)
    files = {name: lock_file(target, name) for name in names}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        holders = pool.map(lambda file: _take_lock(file, me, _is_silent), files.values())
        by_name = dict(zip(files, holders, strict=True))
    refused = {name: who for name, who in by_name.items() if who is not None}
    with _keep_beating([file for name, file in files.items() if name not in refused], me):
        yield refused


@contextmanager
def hold_commit_lock(target: Target) -> Iterator[None]:
    """Excludes other commits to the tables that runs share.

    On a local disk a commit checks that its version is free and then renames its file: of two at
    the same time one would be lost. The system releases the lock of a killed process. In an object
    store this is a lock file as for a table, valid for all machines.
    """
    if target.catalog:
        yield
        return
    if is_object_url(target.lake):
        me, file = _this_holder(f"commit-{uuid.uuid4().hex}"), lock_file(target, "commits")
        has_stopped = _Watch()
        while _take_lock(file, me, has_stopped) is not None:
            time.sleep(GLANCE_SECONDS)
        with _keep_beating([file], me):
            yield
        return
    folder = Path(target.lake, "_locks")
    folder.mkdir(parents=True, exist_ok=True)
    with Path(folder, "commits").open("ab") as file_of_all:
        fcntl.flock(file_of_all, fcntl.LOCK_EX)
        yield


def _take_lock(
    file: LockFile, me: Holder, has_stopped: Callable[[LockFile, str], bool]
) -> Holder | None:
    """Takes the lock; returns None, or its holder if that is another run.

    A holder on this machine is asked by its process, one on another machine by `has_stopped`.
    """
    text = me.model_dump_json()
    while not file.create(text):
        seen = file.read()
        if seen is None:
            continue
        if seen == text:  # an answer that was lost: the store took it all the same
            break
        other = _parse_holder(seen)
        is_here = other.host == socket.gethostname()
        ended = process_start(other.pid) != other.born if is_here else has_stopped(file, seen)
        if not ended:
            return other
        if file.take_over(text, seen):
            break
    return None


def _is_silent(file: LockFile, seen: str) -> bool:
    """Waits for several beats; whether the text with the holder's beat is still the same."""
    time.sleep(BEAT_SECONDS * MISSED_BEATS)
    return file.read() == seen


class _Watch:
    """`_is_silent` without waiting, for callers that ask repeatedly."""

    def __init__(self) -> None:
        self._seen, self._since = "", 0.0

    def __call__(self, file: LockFile, seen: str) -> bool:
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since > BEAT_SECONDS * MISSED_BEATS


@contextmanager
def _keep_beating(files: list[LockFile], me: Holder) -> Iterator[None]:
    """Raises the beats of the locks in a thread, and releases the locks at the end."""
    ended = threading.Event()
    beating = threading.Thread(target=_count_beats, args=(files, me, ended), daemon=True)
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


def _count_beats(files: list[LockFile], me: Holder, ended: threading.Event) -> None:
    """Raises the beats until the run has ended; skips beats that cannot be written."""
    holder = me
    while not ended.wait(BEAT_SECONDS):
        holder = holder.model_copy(update={"beat": holder.beat + 1})
        for file in files:
            with suppress(OSError):
                seen = _own_text(file, me)
                if seen is not None:
                    file.replace(holder.model_dump_json(), seen)


def _own_text(file: LockFile, me: Holder) -> str | None:
    """The text of the lock if it is this run's, else None."""
    text = file.read()
    now = _parse_holder(text or "")
    return text if (now.run_id, now.pid, now.born) == (me.run_id, me.pid, me.born) else None


def _parse_holder(text: str) -> Holder:
    """The holder in a lock's text; for an unreadable text a holder that is not alive."""
    try:
        return Holder.model_validate_json(text)
    except ValidationError:
        nobody = datetime.fromtimestamp(0, timezone.utc)
        host = socket.gethostname()
        return Holder(host=host, pid=0, born="never", run_id="unknown", since=nobody)


def _this_holder(run_id: str) -> Holder:
    pid, now = os.getpid(), datetime.now(timezone.utc)
    host = socket.gethostname()
    return Holder(host=host, pid=pid, born=process_start(pid) or "", run_id=run_id, since=now)


def process_start(pid: int) -> str | None:
    """What distinguishes a process from a later one with its number; None if it does not run.

    Its start in clock ticks since boot and the boot's id, or only its number if these are unknown.
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
        with suppress(PermissionError):  # it runs, for another user
            os.kill(pid, 0)
    except ProcessLookupError:
        return None
    return str(pid)
