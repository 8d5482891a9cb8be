"""One run at a time per table: a lock file in the lake says who writes it.

The file `lake/_locks/NAME.lock` holds the holder and a beat that its run counts up. A lock is stale
when its process is gone, or, where the holder is on another machine, when the beat has stood still
for several beats while it was watched. No clock is compared with another, so none can be wrong.
A target with a catalog has no such files: there its one job keeps its runs apart.

The tables that all runs write to, such as the ledger, have one lock that is held for a commit only.
"""

import fcntl
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from pydantic import ValidationError

from lakehouse.config.table import Strict
from lakehouse.config.target import Target

BEAT_SECONDS = 5.0
MISSED_BEATS = 4


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
    folder = Path(target.lake, "_locks")
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.lock" for name in names}
    refused = {name: who for name, file in files.items() if (who := _taken(file, me)) is not None}
    mine = [file for name, file in files.items() if name not in refused]
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(mine, me, ended), daemon=True)
    beating.start()
    try:
        yield refused
    finally:
        ended.set()
        beating.join()
        for file in mine:
            _let_go(file, me)


@contextmanager
def sharing(target: Target) -> Iterator[None]:
    """Hold back every other commit of this machine to the tables that runs share.

    On a local disk a commit looks whether its version is there and then renames itself to that
    place: of two at once, one would be gone. The system lets go of a killed process's lock.
    """
    if target.catalog:
        yield
        return
    folder = Path(target.lake, "_locks")
    folder.mkdir(parents=True, exist_ok=True)
    with Path(folder, "commits").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _taken(file: Path, me: Holder) -> Holder | None:
    """Take the lock; None when it is ours, else who holds it."""
    while not _made(file, me):
        other = _read(file)
        if other is None:
            continue
        if not _is_stale(file, other):
            return other
        _set_aside(file, other)
    return None


def _made(file: Path, me: Holder) -> bool:
    """Put a lock file there with its content at once, unless there is one."""
    with _aside(file, me) as aside:
        try:
            os.link(aside, file)
        except FileExistsError:
            return False
    return True


def _is_stale(file: Path, holder: Holder) -> bool:
    if holder.host == socket.gethostname():
        return born(holder.pid) != holder.born
    time.sleep(BEAT_SECONDS * MISSED_BEATS)
    return _read(file) == holder


def _set_aside(file: Path, stale: Holder) -> None:
    """Take a stale lock away; one that another run has taken over meanwhile is put back."""
    aside = file.with_suffix(f".{uuid.uuid4().hex}")
    try:
        file.rename(aside)
    except FileNotFoundError:
        return
    if _read(aside) not in (stale, None):
        os.link(aside, file)
    aside.unlink()


def _beat(files: list[Path], me: Holder, ended: threading.Event) -> None:
    """Count up until it has ended; a full disk leaves out beats, for everybody who might look."""
    told = me
    while not ended.wait(BEAT_SECONDS):
        told = told.model_copy(update={"beat": told.beat + 1})
        for file in files:
            with suppress(OSError):
                if _is_mine(file, me):
                    with _aside(file, told) as aside:
                        aside.replace(file)


def _let_go(file: Path, me: Holder) -> None:
    """Take the lock away; one that cannot be, on a read-only disk, is stale with its process."""
    with suppress(OSError):
        if _is_mine(file, me):
            file.unlink(missing_ok=True)


def _is_mine(file: Path, me: Holder) -> bool:
    now = _read(file)
    return now is not None and (now.run_id, now.pid, now.born) == (me.run_id, me.pid, me.born)


@contextmanager
def _aside(file: Path, holder: Holder) -> Iterator[Path]:
    """A file beside it that tells the holder; gone afterwards, also where it did not fit."""
    aside = file.with_suffix(f".{uuid.uuid4().hex}")
    try:
        aside.write_text(holder.model_dump_json(), encoding="utf-8")
        yield aside
    finally:
        aside.unlink(missing_ok=True)


def _read(file: Path) -> Holder | None:
    """The holder; None when the file is gone. One that cannot be read has no living holder."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
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
