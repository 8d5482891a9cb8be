"""The files of a feed's folder: the one place that lists them.

This process lists a folder that it sees: a local one, or a volume of Databricks. Spark lists any
other: a URL, a folder of a Spark Connect server.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from lakehouse.config.target import Target
from lakehouse.storage.landing import is_finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A glob for names that do not begin with . or _ and do not end in .tmp; globs know no "not".
FINISHED = "{[!._],[!._]*[!p],[!._]p,[!._]*[!m]p,[!._]mp,[!._]*[!t]mp,[!._]tmp,[!._]*[!.]tmp}"
URL = r"regexp_replace(_metadata.file_path, '^(?:file|dbfs):/+', '/')"
"""The file of a row that Spark reads, in SQL: the scheme of a local file has several spellings."""

_LOCAL = re.compile("^(?:file|dbfs):/+")
_PLAIN_IN_URLS = "/_-!.~'()*,;:$&+=@"


class DroppedFile(NamedTuple):
    """A file as Spark names it, the milliseconds of its last change, and its size in bytes."""

    path: str
    changed: int
    length: int

    @property
    def url(self) -> str:
        """The path as `URL` gives it of a row that Spark reads."""
        path = _LOCAL.sub("/", self.path)
        return "".join(quote(c, _PLAIN_IN_URLS) if c < "\x80" else c for c in path)

    @property
    def here(self) -> Path:
        """Where this process finds the file, if it sees the folder."""
        return Path(_LOCAL.sub("/", self.path))


def list_files(
    spark: "SparkSession", target: Target, folder: str, is_known: Callable[[str], bool]
) -> list[DroppedFile]:
    """The finished files below a folder that are not known, in no order.

    A folder that this process sees is made when it is missing; of one that Spark does not find
    there are none.
    """
    if is_seen_here(target, folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        return list_here(target, folder, is_known)
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    options = {"recursiveFileLookup": "true", "pathGlobFilter": FINISHED}
    found = spark.read.format("binaryFile").options(**options)
    try:
        rows = (
            found.load(folder).select("path", F.unix_millis("modificationTime"), "length").collect()
        )
    except AnalysisException as failure:
        if "PATH_NOT_FOUND" in str(failure):
            return []
        raise
    return [DroppedFile(*row) for row in rows if not is_known(row[0])]


def list_here(target: Target, folder: str, is_known: Callable[[str], bool]) -> list[DroppedFile]:
    """The finished files below a folder that this process sees and that are not known."""
    scheme = "dbfs:" if target.kind == "databricks" else "file:"
    return list(_listed(os.path.normpath(folder), scheme, is_known))


def is_seen_here(target: Target, folder: str) -> bool:
    """Whether this process sees the folder that Spark sees."""
    if "://" in folder or target.kind == "connect":
        return False
    return target.kind == "local" or Path(target.landing).is_dir()


def in_order(files: Iterable[DroppedFile]) -> list[DroppedFile]:
    """The files by time of change, then path."""
    return sorted(files, key=lambda file: (file.changed, file.path))


def literal_path(path: str) -> str:
    """The path with its glob characters escaped, as Spark takes every path for a pattern."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", path)


def _listed(folder: str, scheme: str, is_known: Callable[[str], bool]) -> Iterator[DroppedFile]:
    """A file that goes meanwhile is left out."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if not _is_hidden_folder(entry.name):
                    yield from _listed(entry.path, scheme, is_known)
            elif is_finished(entry.name) and not is_known(scheme + entry.path):
                try:
                    found = entry.stat()
                except FileNotFoundError:
                    continue
                changed = found.st_mtime_ns // 1_000_000
                yield DroppedFile(scheme + entry.path, changed, found.st_size)


def _is_hidden_folder(name: str) -> bool:
    """As Spark sees it: `_a=b` is a column in a folder's name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
