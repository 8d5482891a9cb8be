"""Jars that Ivy cannot resolve for Spark: fetched from Maven Central once per lake, by digest."""

import hashlib
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError

from lakehouse.errors import SparkUnavailable

CENTRAL = "https://repo1.maven.org/maven2"


class Jar(NamedTuple):
    """A jar by its Maven coordinates and the SHA-256 digest of its content."""

    group: str
    module: str
    version: str
    digest: str

    @property
    def file(self) -> str:
        """Its file name, as Maven writes it."""
        return f"{self.module}-{self.version}.jar"

    @property
    def url(self) -> str:
        """Where Maven Central keeps it."""
        return f"{CENTRAL}/{self.group.replace('.', '/')}/{self.module}/{self.version}/{self.file}"


def in_folder(jars: Sequence[Jar], folder: Path) -> list[Path]:
    """The jars' files in the folder; fetched when they are missing.

    Raises:
        SparkUnavailable: a jar cannot be fetched, or is not what it should be.
    """
    return [_there(jar, folder / jar.file) for jar in jars]


def _there(jar: Jar, file: Path) -> Path:
    if not file.exists():
        _write(file, _fetched(jar))
    if hashlib.sha256(file.read_bytes()).hexdigest() != jar.digest:
        raise SparkUnavailable(f"{file} is not the jar of that name", f"put {jar.url} there")
    return file


def _fetched(jar: Jar) -> bytes:
    try:
        with urllib.request.urlopen(jar.url, timeout=60) as answer:
            content: bytes = answer.read()
    except (URLError, OSError) as failure:
        raise SparkUnavailable(
            f"{jar.url}: {failure}", f"make it reachable, or put {jar.file} into lake/_jars"
        ) from failure
    return content


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".part")
    aside.write_bytes(content)
    aside.replace(file)
