"""Files and folders by path or URL, on disks and in object stores, with a part of pathlib's API.

A place on a disk is a `pathlib.Path`, one in an object store an `ObjectPlace`.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, TypeVar, Union

from lakehouse.config.target import Target
from lakehouse.places.settings import is_object_url

if TYPE_CHECKING:
    from lakehouse.places.objects import ObjectPlace

Place: TypeAlias = Union[Path, "ObjectPlace"]
T = TypeVar("T")
AT_ONCE = 16
"""Requests to an object store, each of which takes some 30 ms."""


def to_place(target: Target, *parts: str) -> Place:
    """The place of a path or URL of several parts; an absolute part replaces those before it."""
    first = max((at for at, part in enumerate(parts) if is_object_url(part)), default=None)
    rest = parts[first + 1 :] if first is not None else ()
    if first is None or any(part.startswith("/") for part in rest):
        return Path(*parts)
    from lakehouse.places.objects import object_place

    result: Place = object_place(target, parts[first])
    for part in rest:
        result = result / part
    return result


def ask_each(question: Callable[[Place], T], places: Iterable[Place]) -> list[T]:
    """The answers for all places in order; object stores are asked in parallel."""
    asked = list(places)
    if all(isinstance(each, Path) for each in asked):
        return [question(each) for each in asked]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(question, asked))


def list_folder(folder: Place) -> list[Place]:
    """The files and folders in a folder; empty if it is missing."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def list_below(folder: Place) -> list[Place]:
    """The files at any depth below a folder, and on a disk the folders too."""
    return list(folder.rglob("*"))


def parts_below(file: Place, folder: Place) -> tuple[str, ...]:
    """The parts of a file's path below a folder that holds it."""
    return Path(str(file)).relative_to(Path(str(folder))).parts


def open_file(file: Place) -> BinaryIO:
    """The file for random access."""
    if isinstance(file, Path):
        return file.open("rb")
    from lakehouse.places.objects import open_object

    return open_object(file)


def write_whole(file: Place, content: bytes, is_synced: bool = False) -> None:
    """Writes a file so that readers see either all of it or the previous one.

    If `is_synced` that also holds after the machine has lost its power.
    """
    if not isinstance(file, Path):
        file.write_bytes(content)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    aside.write_bytes(content)
    if is_synced:
        _sync(aside)
    aside.replace(file)
    if is_synced:
        _sync(file.parent)


def _sync(path: Path) -> None:
    """Waits until the file, or the names in the folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def move_file(file: Place, to: Place) -> None:
    """Moves a file to a place without one."""
    if isinstance(file, Path) and isinstance(to, Path):
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, to)
        return
    write_whole(to, file.read_bytes())
    file.unlink()


def remove_tree(folder: Place) -> None:
    """Removes a folder with all files below it; ignores errors."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        for file in list(folder.rglob("*")):
            file.unlink(missing_ok=True)
