"""Folders of Spark's own files: its log, its warehouse, jars, and temporary files."""

import atexit
import functools
import os
import re
import shutil
import socket
import tempfile
from pathlib import Path

from lakehouse.places.settings import is_object_url
from lakehouse.storage.locks import process_start

TEMPORARY = "_tmp"
_LONGEST_OF_SOCKETS = 60
"""Characters of the folder's path: a socket's whole path has 104 on macOS, 43 are its name."""


@functools.lru_cache
def scratch_folder(lake: str) -> Path:
    """The lake, or if that is read-only a temporary folder, removed with the process.

    A lake in an object store has a folder in the user's cache on this machine.
    """
    if is_object_url(lake):
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return kept / "cdc-lakehouse" / re.sub(r"\W+", "-", lake)
    if not Path(lake).exists() or os.access(lake, os.W_OK):
        return Path(lake)
    return _make_folder()


def temporary_folder(lake: str) -> Path:
    """This process's folder for Spark's temporary files."""
    return scratch_folder(lake) / TEMPORARY / f"{_host_name()}.{os.getpid()}"


def make_temporary(lake: str) -> None:
    """Creates that folder, and removes those that killed processes of this machine left."""
    folder = temporary_folder(lake)
    for left in folder.parent.glob(f"{_host_name()}.*"):
        if process_start(int(left.suffix[1:])) is None:
            shutil.rmtree(left, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


@functools.lru_cache
def socket_folder() -> Path | None:
    """A folder for Unix domain sockets that only this user can open; removed with the process.

    None if the system has no Unix domain sockets, or too long a path for temporary files.
    """
    if not hasattr(socket, "AF_UNIX") or len(tempfile.gettempdir()) > _LONGEST_OF_SOCKETS - 20:
        return None
    return _make_folder()


def _make_folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="lakehouse-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _host_name() -> str:
    return socket.gethostname().partition(".")[0]
