"""Java's classes as one command loaded them, kept for the next, which need not read them again.

The first command in an environment has its Java write them to a file when it ends; later ones map
the file. Java takes one that was made from other jars, or was never finished (its head is written
last), for none. See Class Data Sharing in the manual of `java`.
"""

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def options(java: str | None, libraries: Iterable[str], inside: Path | None = None) -> str:
    """Java's options that use the archive, or that write it where there is none.

    Args:
        java: the program; an archive is of one build of Java. None has no options.
        libraries: what tells the classes apart, such as the versions of jars.
        inside: where archives lie; else in this Python environment, or the user's cache when that
            is read-only. Where nothing can be kept there are no options.
    """
    if java is None or not Path(java).exists():
        return ""
    program = Path(java).resolve()
    told = [str(program), str(program.stat().st_mtime_ns), *libraries]
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    file = (inside or _folder()) / f"{digest}.jsa"
    if any(letter in str(file) for letter in " \"'\\"):
        return ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError:  # nowhere to keep it: Java starts without
        return ""
    used = "SharedArchiveFile" if file.exists() else "ArchiveClassesAtExit"
    return f"-XX:{used}={file} {_QUIET}"


def _folder() -> Path:
    prefix = Path(sys.prefix)
    home = prefix if os.access(prefix, os.W_OK) else Path.home() / ".cache"
    return home / "cdc-lakehouse-classes"
