"""Where Spark's own files go: its log, its warehouse, jars, and what it needs for a while."""

import atexit
import functools
import os
import re
import shutil
import socket
import tempfile
from pathlib import Path

from lakehouse.places.settings import is_object_url
from lakehouse.storage.locks import born

TEMPORARY = "_tmp"
_LONGEST_OF_SOCKETS = 60
"""Characters of the folder's path: a socket's whole path has 104 on macOS, 43 are its name."""


@functools.lru_cache
def scratch(lake: str) -> Path:
    """The lake; where that is read-only, a folder elsewhere that goes with the process.

    So that what is there can be read all the same. A lake in an object store has a folder in the
    user's cache on this machine.
    """
    if is_object_url(lake):
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return kept / "cdc-lakehouse" / re.sub(r"\W+", "-", lake)
    if not Path(lake).exists() or os.access(lake, os.W_OK):
        return Path(lake)
    folder = tempfile.TemporaryDirectory(prefix="lakehouse-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def temporary(lake: str) -> Path:
    """This process's folder for Spark's temporary files."""
    return scratch(lake) / TEMPORARY / f"{_host()}.{os.getpid()}"


def make_temporary(lake: str) -> None:
    """Makes that folder, and removes what killed processes of this machine left in theirs."""
    own = temporary(lake)
    for left in own.parent.glob(f"{_host()}.*"):
        if born(int(left.suffix[1:])) is None:
            shutil.rmtree(left, ignore_errors=True)
    own.mkdir(parents=True, exist_ok=True)


@functools.lru_cache
def socket_folder() -> Path | None:
    """A folder for Unix domain sockets that only this user can open; removed with the process.

    None where the system has no Unix domain sockets, or a too long path for temporary files.
    """
    if not hasattr(socket, "AF_UNIX") or len(tempfile.gettempdir()) > _LONGEST_OF_SOCKETS - 20:
        return None
    folder = tempfile.TemporaryDirectory(prefix="lakehouse-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _host() -> str:
    return socket.gethostname().partition(".")[0]
