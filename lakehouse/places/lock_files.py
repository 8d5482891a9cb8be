"""Files of which only one writer at a time has the making: on a disk, or in an object store.

On a disk a link makes a file only where none is; a store compares as it writes. Whoever takes over
or replaces a file names the text that was seen there, and nothing is done where another one is.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakehouse.config.target import Target
from lakehouse.places.place import place

if TYPE_CHECKING:
    from lakehouse.places.objects import ObjectPlace

RELEASED = "released"


class LockFile(Protocol):
    """A file that says who holds a lock."""

    def read(self) -> str | None:
        """What it says; None where it is not there."""

    def create(self, text: str) -> bool:
        """Puts it there; False where there is one."""

    def take_over(self, text: str, seen: str) -> bool:
        """Puts another one in place of the text that was seen; False where that is gone."""

    def replace(self, text: str, seen: str) -> bool:
        """The same for the holder itself, which nobody disturbs."""

    def let_go(self, seen: str) -> None:
        """Ends the holder's own lock."""


def lock_file(target: Target, name: str) -> LockFile:
    """The lock of a name in a lake without a catalog."""
    file = place(target, target.lake, "_locks", f"{name}.lock")
    if isinstance(file, Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        return DiskLock(file)
    return StoreLock(file)


class DiskLock:
    """A lock on a local disk, where a rename is one step."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> str | None:
        """What it says; None where it is not there."""
        try:
            return self._file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def create(self, text: str) -> bool:
        """Puts it there with its content at once."""
        with self._aside(text) as aside:
            try:
                os.link(aside, self._file)
            except FileExistsError:
                return False
        return True

    def take_over(self, text: str, seen: str) -> bool:
        """Takes a stale lock away; one that another run has taken over meanwhile is put back."""
        aside = self._file.with_suffix(f".{uuid.uuid4().hex}")
        try:
            self._file.rename(aside)
        except FileNotFoundError:
            return False
        if aside.read_text(encoding="utf-8", errors="replace") != seen:
            os.link(aside, self._file)
        aside.unlink()
        return self.create(text)

    def replace(self, text: str, seen: str) -> bool:
        """Puts the text in place of the one that was seen."""
        if self.read() != seen:
            return False
        with self._aside(text) as aside:
            aside.replace(self._file)
        return True

    def let_go(self, seen: str) -> None:
        """Removes it, where it is still the one that was seen."""
        if self.read() == seen:
            self._file.unlink(missing_ok=True)

    @contextmanager
    def _aside(self, text: str) -> Iterator[Path]:
        """A file beside it with the text; gone afterwards, also where it did not fit."""
        aside = self._file.with_suffix(f".{uuid.uuid4().hex}")
        try:
            aside.write_text(text, encoding="utf-8")
            yield aside
        finally:
            aside.unlink(missing_ok=True)


class StoreLock:
    """A lock in an object store, which writes a file only over the one that was read.

    A store cannot compare as it deletes, so a lock that is let go says so and stays.
    """

    def __init__(self, file: "ObjectPlace") -> None:
        self._file = file

    def read(self) -> str | None:
        """What it says; None where it is not there."""
        try:
            return self._file.read_text()
        except FileNotFoundError:
            return None

    def create(self, text: str) -> bool:
        """Puts it there, or in place of one that was let go."""
        return self._file.create(text.encode()) or self.replace(text, RELEASED)

    def take_over(self, text: str, seen: str) -> bool:
        """Puts the text in place of the one that was seen."""
        return self.replace(text, seen)

    def replace(self, text: str, seen: str) -> bool:
        """Puts the text in place of the one that was seen."""
        try:
            now, tag = self._file.read_with_tag()
        except FileNotFoundError:
            return False
        return now.decode() == seen and self._file.swap(text.encode(), tag)

    def let_go(self, seen: str) -> None:
        """Says that nobody holds it, where it is still the one that was seen."""
        self.replace(RELEASED, seen)
