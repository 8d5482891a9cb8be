"""Lock files that only one process can create: on a disk, or in an object store.

On a disk a hard link fails if the file exists; a store has conditional writes. Taking over or
replacing a lock needs the text that was read there, and does nothing if the text is another by now.
"""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lakehouse.config.target import Target
from lakehouse.places.place import to_place

if TYPE_CHECKING:
    from lakehouse.places.objects import ObjectPlace

RELEASED = "released"


class DiskLock:
    """A file on a local disk whose text describes the holder of a lock; a rename is one step."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> str | None:
        """The text; None without a file."""
        try:
            return self._file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def create(self, text: str) -> bool:
        """Creates the file with its content in one step; False if it exists."""
        with self._write_aside(text) as aside:
            try:
                os.link(aside, self._file)
            except FileExistsError:
                return False
        return True

    def take_over(self, text: str, seen: str) -> bool:
        """Replaces the text `seen` of a stale lock; False if another run was faster.

        Runs that take a lock over wait for each other here, by a lock of the folder itself.
        """
        folder = os.open(self._file.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            return self.replace(text, seen)
        finally:
            os.close(folder)

    def replace(self, text: str, seen: str) -> bool:
        """Replaces the text `seen`; False if the file has another text."""
        if self.read() != seen:
            return False
        with self._write_aside(text) as aside:
            aside.replace(self._file)
        return True

    def let_go(self, seen: str) -> None:
        """Removes the file if it still has the text `seen`."""
        if self.read() == seen:
            self._file.unlink(missing_ok=True)

    @contextmanager
    def _write_aside(self, text: str) -> Iterator[Path]:
        """A temporary file beside it with the text, removed afterwards."""
        aside = self._file.with_suffix(f".{uuid.uuid4().hex}")
        try:
            aside.write_text(text, encoding="utf-8")
            yield aside
        finally:
            aside.unlink(missing_ok=True)


class StoreLock:
    """A file in an object store whose text describes the holder of a lock; writes are conditional.

    Stores have no conditional delete, so a released lock stays with the text `released`.
    """

    def __init__(self, file: "ObjectPlace") -> None:
        self._file = file

    def read(self) -> str | None:
        """The text; None without a file."""
        try:
            return self._file.read_text()
        except FileNotFoundError:
            return None

    def create(self, text: str) -> bool:
        """Creates the file, or replaces a released lock; False if another run holds it."""
        return self._file.create(text.encode()) or self.replace(text, RELEASED)

    def replace(self, text: str, seen: str) -> bool:
        """Replaces the text `seen`; False if the file has another text."""
        try:
            now, tag = self._file.read_with_tag()
        except FileNotFoundError:
            return False
        return now.decode() == seen and self._file.swap(text.encode(), tag)

    take_over = replace

    def let_go(self, seen: str) -> None:
        """Marks the lock as released if it still has the text `seen`."""
        self.replace(RELEASED, seen)


LockFile: TypeAlias = DiskLock | StoreLock


def lock_file(target: Target, name: str) -> LockFile:
    """The lock file of a name in a lake without a catalog."""
    file = to_place(target, target.lake, "_locks", f"{name}.lock")
    if isinstance(file, Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        return DiskLock(file)
    return StoreLock(file)
