"""Lists the files of a feed's folder.

This process lists folders that it can read: local ones, object stores, volumes of Databricks.
Spark lists all others: other URLs, folders of a Spark Connect server.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from lakehouse.config.target import Target
from lakehouse.places.place import Place, parts_below, to_place
from lakehouse.places.settings import is_object_url, is_reached
from lakehouse.storage.lake import Lake
from lakehouse.storage.landing import is_finished

FINISHED = "{[!._],[!._]*[!p],[!._]p,[!._]*[!m]p,[!._]mp,[!._]*[!t]mp,[!._]tmp,[!._]*[!.]tmp}"
"""A glob for names that do not begin with . or _ and do not end in .tmp; globs know no "not", so it
has a pattern for each way not to end so."""
URL = r"regexp_replace(_metadata.file_path, '^(?:file|dbfs):/+', '/')"
"""The file of a row that Spark reads, in SQL: the scheme of a local file has several spellings."""

_LOCAL = re.compile("^(?:file|dbfs):/+")
_NOT_ESCAPED = "/_-!.~'()*,;:$&+=@"
"""What Java's URIs, and so Spark's names of files, have unescaped, beside letters and digits."""


class DroppedFile(NamedTuple):
    """A file as Spark names it, the milliseconds of its last change, and its size in bytes.

    `found` is its place if this process listed it in an object store. Pipes, devices and links that
    lead nowhere are no files.
    """

    path: str
    changed: int
    length: int
    found: Place | None = None
    is_file: bool = True

    @property
    def url(self) -> str:
        """The path as the SQL expression `URL` gives it for rows of the file."""
        return "".join(quote(c, _NOT_ESCAPED) if c < "\x80" else c for c in on_disk(self.path))

    @property
    def here(self) -> Place:
        """The file's place for this process, if it can read the folder."""
        return self.found or Path(on_disk(self.path))


def list_files(lake: Lake, folder: str, is_known: Callable[[str], bool]) -> list[DroppedFile]:
    """The finished files below a folder that are not known, unsorted.

    A missing folder has no files.
    """
    if can_list_here(lake.target, folder):
        return list_here(lake.target, folder, is_known)
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    options = {"recursiveFileLookup": "true", "pathGlobFilter": FINISHED}
    columns = ("path", F.unix_millis("modificationTime"), "length")
    reader = lake.spark.read.format("binaryFile").options(**options)
    try:
        rows = reader.load(folder).select(*columns).collect()
    except AnalysisException as failure:
        if "PATH_NOT_FOUND" in str(failure):
            return []
        raise
    return [DroppedFile(*row) for row in rows if not is_known(row[0])]


def list_here(target: Target, folder: str, is_known: Callable[[str], bool]) -> list[DroppedFile]:
    """The finished, unknown files below a folder that this process can read, unsorted."""
    if is_object_url(folder):
        return list(_list_store(to_place(target, folder), is_known))
    scheme = "dbfs:" if target.kind == "databricks" else "file:"
    return list(_list_disk(os.path.normpath(folder), scheme, is_known))


def can_list_here(target: Target, folder: str) -> bool:
    """Whether this process can read the folder that Spark reads."""
    if "://" in folder:
        return is_reached(target, folder)
    if target.kind in ("local", "cluster"):
        return True
    return target.kind != "connect" and Path(target.landing).is_dir()


def in_order(files: Iterable[DroppedFile]) -> list[DroppedFile]:
    """The files by time of change, then path."""
    return sorted(files, key=lambda file: (file.changed, file.path))


def on_disk(path: str) -> str:
    """The path of a local file without Spark's scheme; the URL of any other file."""
    return _LOCAL.sub("/", path)


def literal_path(path: str) -> str:
    """The path with its glob characters escaped, as Spark takes every path for a pattern."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", path)


def _list_disk(folder: str, scheme: str, is_known: Callable[[str], bool]) -> Iterator[DroppedFile]:
    """The finished files below a local folder; what is removed meanwhile is left out."""
    try:
        scan = os.scandir(folder)
    except FileNotFoundError:
        return
    with scan as entries:
        for entry in entries:
            if _is_folder(entry):
                if not _is_hidden_folder(entry.name):
                    yield from _list_disk(entry.path, scheme, is_known)
            elif is_finished(entry.name) and not is_known(scheme + entry.path):
                state = _find_state(entry)
                if state is not None:
                    changed = state.st_mtime_ns // 1_000_000
                    is_file = stat.S_ISREG(state.st_mode)
                    yield DroppedFile(scheme + entry.path, changed, state.st_size, None, is_file)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link to one; a link that cannot be followed is none.

    Raises:
        OSError: links lead from a folder to one above it, so its files have no end of paths.
    """
    try:
        return entry.is_dir()
    except OSError:
        if Path(os.path.realpath(entry.path)).is_dir():
            raise
        return False


def _find_state(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Size and time of a file; those of the link where it leads to none; None if it is gone."""
    try:
        return entry.stat()
    except OSError as failure:
        if entry.is_symlink():
            with suppress(FileNotFoundError):
                return entry.stat(follow_symlinks=False)
        elif not isinstance(failure, FileNotFoundError):
            raise
    return None


def _list_store(folder: Place, is_known: Callable[[str], bool]) -> Iterator[DroppedFile]:
    """The finished files below a folder of an object store, named as Spark names them."""
    every: Iterator[Place] = folder.rglob("*")
    for file in every:
        path, above = str(file), parts_below(file, folder)[:-1]
        if is_finished(file.name) and not any(map(_is_hidden_folder, above)) and not is_known(path):
            state = file.stat()
            yield DroppedFile(path, state.st_mtime_ns // 1_000_000, state.st_size, file)


def _is_hidden_folder(name: str) -> bool:
    """Whether Spark skips the folder; `_a=b` is a column in a folder's name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
