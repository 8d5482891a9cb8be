"""Files of an object store with the interface of `lakehouse.places.place`, by obstore.

A folder exists as soon as a file is below it. Errors of a store become `OSError`.
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
    """A store's metadata of a file; `e_tag` changes with each write."""

    st_size: int
    st_mtime_ns: int
    e_tag: str

    @property
    def st_ctime_ns(self) -> int:
        """The time of the last write, as a store has no other time."""
        return self.st_mtime_ns

    @property
    def st_ino(self) -> int:
        """A number in place of the tag."""
        return int.from_bytes(self.e_tag.encode(), "big")


@dataclass(frozen=True)
class ObjectPlace:
    """A file or folder of an object store; `known` and `is_folder` come from a listing."""

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
        """Whether a file exists, or anything below."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether a file exists."""
        if self.is_folder:
            return False
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether anything is below."""
        if self.is_folder:
            return True
        with _as_os_errors(self):
            return any(obstore.list(self.store, self._prefix, chunk_size=1))

    def stat(self) -> ObjectState:
        """The store's metadata of the file."""
        if self.known is not None:
            return self.known
        with _as_os_errors(self):
            return _to_state(obstore.head(self.store, str(self.key)))

    def read_bytes(self) -> bytes:
        """The content."""
        return self.read_with_tag()[0]

    def read_text(self, encoding: str | None = None) -> str:
        """The content as text."""
        return self.read_bytes().decode(encoding or "utf-8")

    def read_with_tag(self) -> tuple[bytes, str]:
        """The content, and the file's tag."""
        with _as_os_errors(self):
            answer = obstore.get(self.store, str(self.key))
            return bytes(answer.bytes()), str(answer.meta["e_tag"])

    def write_bytes(self, data: bytes) -> int:
        """Writes the file in one step."""
        with _as_os_errors(self):
            obstore.put(self.store, str(self.key), data)
        return len(data)

    def create(self, data: bytes) -> bool:
        """Creates the file; does nothing and returns False if it exists."""
        with _as_os_errors(self):
            try:
                obstore.put(self.store, str(self.key), data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def swap(self, data: bytes, tag: str) -> bool:
        """Replaces the file if it still has the tag; else returns False."""
        with _as_os_errors(self):
            try:
                obstore.put(self.store, str(self.key), data, mode={"e_tag": tag})
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return False
        return True

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes the file; a missing file is no error, as a store does not report it."""
        with _as_os_errors(self):
            obstore.delete(self.store, str(self.key))

    def iterdir(self) -> Iterator["ObjectPlace"]:
        """The files and folders in the folder."""
        with _as_os_errors(self):
            listing = obstore.list_with_delimiter(self.store, self._prefix)
        for folder in listing["common_prefixes"]:
            yield ObjectPlace(self.store, self.root, PurePosixPath(folder), None, True)
        files = [each for each in listing["objects"] if each["path"] != str(self.key)]
        yield from (self._at(PurePosixPath(each["path"]), _to_state(each)) for each in files)

    def glob(self, pattern: str) -> Iterator["ObjectPlace"]:
        """The matching files and folders in the folder; a pattern may have several parts."""
        first, _, rest = pattern.partition("/")
        for entry in self.iterdir():
            if fnmatch(entry.name, first):
                yield from entry.glob(rest) if rest else (entry,)

    def rglob(self, pattern: str) -> Iterator["ObjectPlace"]:
        """The files at any depth whose names match."""
        with _as_os_errors(self):
            objects = [each for part in obstore.list(self.store, self._prefix) for each in part]
        for each in objects:
            file = self._at(PurePosixPath(each["path"]), _to_state(each))
            if fnmatch(file.name, pattern) and not self._is_marker(file):
                yield file

    @property
    def _prefix(self) -> str | None:
        return None if str(self.key) == "." else str(self.key)

    def _is_marker(self, file: "ObjectPlace") -> bool:
        """Whether the file is Hadoop's empty object `NAME/` for an empty folder."""
        return not file.stat().st_size and not self._at(file.key).is_file()

    def _at(self, key: PurePosixPath, state: ObjectState | None = None) -> "ObjectPlace":
        return ObjectPlace(self.store, self.root, key, state)


def object_place(target: Target, url: str) -> ObjectPlace:
    """The place of a URL, with the target's settings of its store."""
    scheme, _, rest = url.partition("://")
    authority, _, key = rest.partition("/")
    root = f"{scheme}://{authority}"
    return ObjectPlace(_open_store(root, access_of(target, scheme)), root, PurePosixPath(key))


def open_object(file: ObjectPlace) -> BinaryIO:
    """The file for random access: only the parts that are read are fetched."""
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
        data = bytes(self._file.read(len(room)))
        room[: len(data)] = data
        return len(data)


@lru_cache
def _open_store(root: str, access: Access) -> "ObjectStore":
    """The client of a bucket or container."""
    client = {"allow_http": access.allow_http}
    options: dict[str, Any] = {"client_options": client, **dict(access.options)}
    return from_url(root, **options)


def _to_state(meta: "ObjectMeta") -> ObjectState:
    changed = round(meta["last_modified"].timestamp() * 1_000_000) * 1_000
    return ObjectState(meta["size"], changed, str(meta["e_tag"]))


@contextmanager
def _as_os_errors(place: ObjectPlace) -> Iterator[None]:
    try:
        yield
    except BaseError as failure:
        raise OSError(f"{place}: {str(failure).splitlines()[0][:500]}") from failure
