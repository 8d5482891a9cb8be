"""The real parts of the live tests: where they lie, and processes made of them."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REMOTE

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "build" / "live"
INSTALL = "tests/e2e/install.sh"
ENGINES = ("engine", "engine-mariadb", "classes")
MARIADB = Path("/usr/sbin/mariadbd")
# The jar is chosen when a server starts, and the one of `make test-connect` is for tests/spark.
needs_kafka = pytest.mark.skipif(
    bool(REMOTE), reason="a Connect server without Kafka's connector: unset LAKEHOUSE_TEST_REMOTE"
)
# What a failed test did not stop is killed after it.
STARTED: "list[Process]" = []


class Process(NamedTuple):
    """A process that a test started, and the file with what it said."""

    popen: "subprocess.Popen[bytes]"
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def runs(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """kill -9."""
        self.popen.kill()
        self.popen.wait()

    def stop(self, seconds: float = 60, number: signal.Signals = signal.SIGTERM) -> int:
        """SIGTERM or another signal, then wait; kill -9 when that takes too long."""
        if self.runs():
            self.popen.send_signal(number)
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def missing(registry: bool = False) -> list[str]:
    """Which parts are not installed, the registry among them where it is needed."""
    parts = {
        "PostgreSQL": bool(postgres_programs()),
        "MariaDB": MARIADB.is_file(),
        "the Debezium engine": all((PARTS / part).is_dir() for part in ENGINES),
        "the Kafka broker": (PARTS / "broker").is_dir(),
        "the schema registry": not registry or (PARTS / "registry").is_dir(),
    }
    return [part for part, there in parts.items() if not there]


def postgres_programs() -> Path | None:
    """Folder of the newest PostgreSQL's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def start(
    command: Sequence[str | Path],
    log: Path,
    ready: str = "",
    seconds: float = 240,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start a program in a group of its own; return once its log says `ready`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        begun = log.stat().st_size
        popen = subprocess.Popen(
            [str(part) for part in command], stdout=file, stderr=file, cwd=log.parent,
            env=dict(os.environ) | dict(env or {}), start_new_session=True,
        )  # fmt: skip
    process = Process(popen, log)
    STARTED.append(process)
    if ready:
        wait_for(lambda: ready in process.said()[begun:] or not process.runs(), seconds, ready)
        assert process.runs(), process.said()[-3000:]
    return process


def java(classpath: Sequence[Path], *arguments: str | Path) -> list[str | Path]:
    """A command line of a small Java process."""
    found = ":".join(f"{part}/*" if any(part.glob("*.jar")) else str(part) for part in classpath)
    return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", found, *arguments]


def wait_for(done: Callable[[], object], seconds: float, what: str) -> None:
    """Poll until `done` is true."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def folder(name: str) -> Path:
    """A new folder that every user may enter: PostgreSQL's server does not run as root."""
    made = Path(tempfile.mkdtemp(prefix=f"lakehouse-{name}-"))
    made.chmod(0o755)
    return made


def write_properties(path: Path, properties: Mapping[str, object]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path
