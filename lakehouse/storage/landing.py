"""Landing folders: their files, and snapshot files that `run --extract` copies there.

Copied files are named by their content, so that copying them again adds nothing.
"""

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.places.place import Place, to_place
from lakehouse.places.settings import is_object_url

_AGAIN = re.compile(r"^again-\d+-")


class LandedFile(NamedTuple):
    """A file below a landing folder; times are in nanoseconds since 1970.

    Attributes:
        path: its path, below the folder as given.
        size: its bytes.
        changed_at: the time of its content (mtime), which any program can set.
        touched_at: the time of the last change of its content, name or rights (ctime).
        number: its number in the file system (inode).
    """

    path: str
    size: int
    changed_at: int
    touched_at: int
    number: int


def list_files(target: Target, folder: str) -> list[LandedFile]:
    """All files below a folder, sorted by path; links are followed.

    Raises:
        OSError: the folder is missing, a part of it cannot be read, or several links lead to one
            folder.
    """
    if is_object_url(folder):
        return sorted(map(_to_landed_file, to_place(target, folder).rglob("*")))
    files, seen = list[LandedFile](), set[tuple[int, int]]()
    left = [folder]
    while left:
        inner = left.pop()
        state = Path(inner).stat()
        if (state.st_dev, state.st_ino) in seen:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), inner)
        seen.add((state.st_dev, state.st_ino))
        with os.scandir(inner) as entries:
            for entry in entries:
                if entry.is_dir():
                    left.append(entry.path)
                else:
                    of = entry.stat()
                    times = of.st_mtime_ns, of.st_ctime_ns
                    files.append(LandedFile(entry.path, of.st_size, *times, of.st_ino))
    return sorted(files)


def _to_landed_file(file: Place) -> LandedFile:
    of = file.stat()
    return LandedFile(str(file), of.st_size, of.st_mtime_ns, of.st_ctime_ns, of.st_ino)


def land_snapshot(target: Target, tables: Sequence[Table], folder: Path, day: str) -> list[Path]:
    """Copies the files of a folder to `LANDING/PATH/DAY/`; returns those that are new there.

    The folder of a new date appears in one rename with all its files. Files whose names begin with
    . or _ or end in .tmp are left out, as everywhere.

    Raises:
        ConfigurationError: not exactly one snapshot table, an invalid date, a missing or empty
            folder, or a landing root that is no folder of this machine.
    """
    day_of = _snapshot_folder(target, tables) / _check_date(day)
    named = {_content_name(file): file for file in _list_snapshot_files(folder)}
    new = {name: file for name, file in named.items() if not (day_of / name).exists()}
    if not new:
        return []
    day_of.parent.mkdir(parents=True, exist_ok=True)
    aside = day_of.with_name(f".{day_of.name}.{os.getpid()}")
    aside.mkdir()
    for name, file in new.items():
        shutil.copyfile(file, aside / name)
    if not day_of.exists():
        aside.rename(day_of)
    else:
        for name in new:
            (aside / name).rename(day_of / name)
        aside.rmdir()
    return [day_of / name for name in new]


def rename_landed(target: Target, file: Path) -> Path:
    """Renames a dropped file so that the next run reads it again.

    Raises:
        ConfigurationError: it is no file below the landing root.
    """
    if "://" in target.landing or not file.absolute().is_relative_to(Path(target.landing)):
        expected = f"a file below {target.landing}"
        raise _to_error("--again", str(file), expected, "name a file that was dropped there")
    if not file.is_file():
        raise _to_error("--again", f"no file {file}", "a file that is there", "correct the name")
    # Bronze knows the names of files that are gone, so a name that is free now may have been read.
    new = file.with_name(f"again-{time.time_ns()}-{_AGAIN.sub('', file.name)}")
    return file.rename(new)


def is_finished(name: str) -> bool:
    """Whether the name is that of a complete file, and UTF-8, as Spark needs it."""
    finished = not name.startswith((".", "_")) and not name.endswith((".tmp", "._COPYING_"))
    return finished and (name.isascii() or name.encode(errors="ignore").decode() == name)


def from_landing(text: str | None, target: Target) -> str | None:
    """A message with paths of dropped files shortened to those below the landing root."""
    root = re.escape(target.landing.strip("/"))
    return None if text is None else re.sub(rf"file:/+{root}/", "", text)


def _snapshot_folder(target: Target, tables: Sequence[Table]) -> Path:
    if len(tables) != 1 or tables[0].format != "snapshot":
        actual = ", ".join(f"{table.table} ({table.format})" for table in tables)
        raise _to_error("--table", actual, "one table of format snapshot", "name it with --table")
    if "://" in target.landing:
        expected = "a folder that this machine can write to"
        action = "copy the files there by other means"
        raise _to_error("--extract", target.landing, expected, action)
    return Path(target.landing, str(tables[0].feeds[0].path))


def _check_date(text: str) -> str:
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if day >= date(1970, 1, 1) and day.isoformat() == text:
            return text
    raise _to_error("--effective-date", text, "a day since 1970 as YYYY-MM-DD", "correct it")


def _list_snapshot_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise _to_error("--extract", str(folder), "a folder with snapshot files", "correct it")
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and is_finished(file.name)]
    if not files:
        expected = "at least one file whose name does not begin with . or _ or end in .tmp"
        raise _to_error("--extract", f"no such file in {folder}", expected, "correct it")
    return files


def _content_name(file: Path) -> str:
    """The content's digest and the name, which keeps endings such as .csv.gz."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while part := content.read(1 << 20):
            digest.update(part)
    return f"{digest.hexdigest()[:12]}-{file.name}"


def _to_error(option: str, actual: str, expected: str, action: str) -> ConfigurationError:
    return ConfigurationError("command line", option, actual, expected, action)
