"""Files of an object store as `lakehouse.places.place` asks for them, by obstore.

A folder is there as soon as a file lies below it. What a store says no to is an `OSError`.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from lakehouse.config.target import Target
from lakehouse.places.settings import Access, access_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from obstore import ObjectMeta, ReadableFile
    from obstore.store import ObjectStore


class ObjectState(NamedTuple):
    """What a store knows of a file; `e_tag` is another one after each write."""

    st_size: int
    st_mtime_ns: int
    e_tag: str

    @property
    def st_ctime_ns(self) -> int:
        """A store knows one time only."""
        return self.st_mtime_ns

    @property
    def st_ino(self) -> int:
        """A number in place of the tag."""
        return int.from_bytes(self.e_tag.encode(), "big")


@dataclass(frozen=True)
class ObjectPlace:
    """A file or folder of an object store; `known` and `is_folder` are what a listing said."""

    store: "ObjectStore" = field(compare=False, repr=False)
    root: str
    key: PurePosixPath
    known: ObjectState | None = field(default=None, compare=False)
    is_folder: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """The URL."""
        return f"{self.root}/{self.key}"

    def __truediv__(self, below: str) -> "ObjectPlace":
        return self._at(self.key / below)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.name

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return self.key.stem

    @property
    def suffix(self) -> str:
        """The ending with its dot."""
        return self.key.suffix

    @property
    def parent(self) -> "ObjectPlace":
        """The folder that holds it."""
        return self._at(self.key.parent)

    def exists(self) -> bool:
        """Whether a file is there, or anything below."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether a file is there."""
        if self.is_folder:
            return False
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether anything lies below."""
        if self.is_folder:
            return True
        with _as_os_errors(self):
            return any(obstore.list(self.store, self._prefix, chunk_size=1))

    def stat(self) -> ObjectState:
        """What the store knows of the file."""
        if self.known is not None:
            return self.known
        with _as_os_errors(self):
            return _state(obstore.head(self.store, str(self.key)))

    def read_bytes(self) -> bytes:
        """All of the file."""
        return self.read_with_tag()[0]

    def read_text(self, encoding: str | None = None) -> str:
        """All of the file as text."""
        return self.read_bytes().decode(encoding or "utf-8")

    def read_with_tag(self) -> tuple[bytes, str]:
        """All of the file, and its tag."""
        with _as_os_errors(self):
            found = obstore.get(self.store, str(self.key))
            return bytes(found.bytes()), str(found.meta["e_tag"])

    def write_bytes(self, data: bytes) -> int:
        """Puts the file there, in one step."""
        with _as_os_errors(self):
            obstore.put(self.store, str(self.key), data)
        return len(data)

    def create(self, data: bytes) -> bool:
        """Puts the file there; False, and nothing done, where there is one."""
        with _as_os_errors(self):
            try:
                obstore.put(self.store, str(self.key), data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def swap(self, data: bytes, tag: str) -> bool:
        """Puts another file in place of the one with the tag; False where that is gone."""
        with _as_os_errors(self):
            try:
                obstore.put(self.store, str(self.key), data, mode={"e_tag": tag})
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return False
        return True

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes the file; one that is gone is no failure, as a store does not tell."""
        with _as_os_errors(self):
            obstore.delete(self.store, str(self.key))

    def iterdir(self) -> Iterator["ObjectPlace"]:
        """The files and folders in the folder."""
        with _as_os_errors(self):
            found = obstore.list_with_delimiter(self.store, self._prefix)
        for folder in found["common_prefixes"]:
            yield ObjectPlace(self.store, self.root, PurePosixPath(folder), None, True)
        files = [each for each in found["objects"] if each["path"] != str(self.key)]
        yield from (self._at(PurePosixPath(each["path"]), _state(each)) for each in files)

    def glob(self, pattern: str) -> Iterator["ObjectPlace"]:
        """What lies in the folder and fits; a pattern may have several parts."""
        first, _, rest = pattern.partition("/")
        for found in self.iterdir():
            if fnmatch(found.name, first):
                yield from found.glob(rest) if rest else (found,)

    def rglob(self, pattern: str) -> Iterator["ObjectPlace"]:
        """The files below whose names fit."""
        with _as_os_errors(self):
            found = [each for part in obstore.list(self.store, self._prefix) for each in part]
        for each in found:
            file = self._at(PurePosixPath(each["path"]), _state(each))
            if fnmatch(file.name, pattern) and not self._is_marker(file):
                yield file

    @property
    def _prefix(self) -> str | None:
        return None if str(self.key) == "." else str(self.key)

    def _is_marker(self, file: "ObjectPlace") -> bool:
        """Whether an empty object is what Hadoop keeps in place of an empty folder: `NAME/`."""
        return not file.stat().st_size and not self._at(file.key).is_file()

    def _at(self, key: PurePosixPath, known: ObjectState | None = None) -> "ObjectPlace":
        return ObjectPlace(self.store, self.root, key, known)


def object_place(target: Target, url: str) -> ObjectPlace:
    """The place of a URL, reached as the target says."""
    scheme, _, rest = url.partition("://")
    authority, _, key = rest.partition("/")
    root = f"{scheme}://{authority}"
    return ObjectPlace(_store(root, access_of(target, scheme)), root, PurePosixPath(key))


def open_object(file: ObjectPlace) -> BinaryIO:
    """The file to be read from any point on: only what is read is fetched."""
    with _as_os_errors(file):
        return cast("BinaryIO", io.BufferedReader(_Parts(file), 1 << 20))


class _Parts(io.RawIOBase):
    """obstore's reader as Python's own."""

    def __init__(self, file: ObjectPlace) -> None:
        self._file: ReadableFile = obstore.open_reader(file.store, str(file.key))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        room = memoryview(buffer)
        found = bytes(self._file.read(len(room)))
        room[: len(found)] = found
        return len(found)


@lru_cache
def _store(root: str, access: Access) -> "ObjectStore":
    """The client of a bucket or container."""
    client = {"allow_http": access.allow_http}
    options: dict[str, Any] = {"client_options": client, **dict(access.options)}
    return from_url(root, **options)


def _state(meta: "ObjectMeta") -> ObjectState:
    changed = round(meta["last_modified"].timestamp() * 1_000_000) * 1_000
    return ObjectState(meta["size"], changed, str(meta["e_tag"]))


@contextmanager
def _as_os_errors(place: ObjectPlace) -> Iterator[None]:
    try:
        yield
    except BaseError as failure:
        raise OSError(f"{place}: {str(failure).splitlines()[0][:500]}") from failure
