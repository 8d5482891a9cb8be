"""A lake's warm session: a Spark Connect server on this machine, and the file that describes it.

The server writes `lake/_server.json`, which only its user can read. Clients of the lake find the
server there if it runs, on the same machine and with the same version; other files are ignored.
The server listens on the loopback device only, and requires its token.
"""

import fcntl
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.config.strict import Strict
from lakehouse.config.target import Target
from lakehouse.errors import ServerUnreachable, SparkUnavailable
from lakehouse.storage.locks import process_start

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

FILE = "_server.json"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
LONGEST_START, LONGEST_WAIT = 300.0, 30.0
GLANCE_SECONDS = 0.02
_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"


class Server(Strict):
    """A running server.

    Attributes:
        host: the machine.
        pid: the process.
        born: what distinguishes the process from a later one with that number.
        version: the version of the lakehouse.
        port: where the server listens.
        token: the secret of the server's clients.
        shown: a digest of the tables and views that the server shows; empty until it shows any.
    """

    host: str
    pid: int
    born: str
    version: str
    port: int
    token: str
    shown: str = ""

    @property
    def url(self) -> str:
        """The URL for Spark Connect clients; for this host name a token needs no TLS."""
        return f"sc://localhost:{self.port}/;token={self.token}"

    @property
    def is_current(self) -> bool:
        """Whether the process is alive and has this version of the lakehouse."""
        return process_start(self.pid) == self.born and self.version == version("cdc-lakehouse")


def read_server(target: Target) -> Server | None:
    """The server in the lake's file, alive or not; None without such a file."""
    with suppress(OSError, ValueError):
        return Server.model_validate_json(_server_file(target).read_bytes())
    return None


def find_server(target: Target) -> Server | None:
    """The lake's running server; the file of a dead one or of another version is removed."""
    if target.kind != "local" or "://" in target.lake:
        return None
    server = read_server(target)
    if server is None or server.host != socket.gethostname():
        return None
    if server.is_current:
        return server
    remove_server(target, server)
    return None


def write_server(target: Target, server: Server) -> None:
    """Writes the file in one rename; only this user can read it."""
    file = _server_file(target)
    aside = file.with_suffix(f".{os.getpid()}")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
        written.write(server.model_dump_json())
    aside.replace(file)


def remove_server(target: Target, server: Server) -> None:
    """Removes the file, unless it describes another server by now."""
    if is_own(target, server):
        with suppress(OSError):
            _server_file(target).unlink(missing_ok=True)


def is_own(target: Target, server: Server) -> bool:
    """Whether the lake's file describes this server."""
    now = read_server(target)
    return now is not None and (now.pid, now.born) == (server.pid, server.born)


def start_server(target: Target, port: int = 0) -> "tuple[SparkSession, Server]":
    """Starts a Spark with a Connect server in this process; port 0 stands for a free one.

    Raises:
        SparkUnavailable: Spark does not start, for example because the port is taken.
    """
    from lakehouse.spark.local_settings import SETTINGS_OF_SMALL_LAKES, is_small
    from lakehouse.spark.session import get_spark

    token = os.environ[TOKEN] = secrets.token_urlsafe(32)
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.artifact.isolation.enabled": "true",
        **(SETTINGS_OF_SMALL_LAKES if is_small(target) else {}),
    }
    spark = get_spark(target, open_ended=True, more=settings)
    pid, port = os.getpid(), _find_service(spark).localPort()
    of_this = {"host": socket.gethostname(), "pid": pid, "born": process_start(pid) or ""}
    return spark, Server(version=version("cdc-lakehouse"), port=port, token=token, **of_this)


def spawn_server(target: Target, options: Sequence[str]) -> Server:
    """Starts the lake's server as a process of its own, and waits until it answers.

    Of several at once one starts it. `options` are those of `lakehouse serve`.

    Raises:
        SparkUnavailable: it ended instead; the message has the last of its log.
    """
    command = [sys.executable, "-m", "lakehouse", "serve", "--foreground", *options]
    log = Path(target.lake, "_logs", "serve.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.with_suffix(".lock").open("ab") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        server = find_server(target) or _start_process(command, log, target)
    if server is not None:
        return server
    last = log.read_text(errors="replace").strip() or f"it did not start in {LONGEST_START:.0f} s"
    raise SparkUnavailable(f"no server: {last[-2000:]}", f"read {log}")


def _start_process(command: Sequence[str], log: Path, target: Target) -> Server | None:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    until = time.monotonic() + LONGEST_START
    while process.poll() is None and time.monotonic() < until:
        server = find_server(target)
        if server is not None:
            return server
        time.sleep(0.1)
    process.terminate()
    return None


def last_used(spark: "SparkSession") -> float:
    """When a client last used the server (s since 1970); the current time while it works."""
    service = _find_service(spark)
    running = service.listActiveExecutions()
    sessions = service.sessionManager().listActiveSessions()
    if running.isRight():
        return time.time()
    seen = [sessions.apply(at).lastAccessTimeMs() for at in range(sessions.size())]
    return float(max([running.value(), *seen])) / 1000


def connect_to_server(target: Target) -> "SparkSession | None":
    """A session on the lake's running server; None if none runs or it does not answer."""
    server = find_server(target)
    if server is None:
        return None
    from lakehouse.spark.session import connect_to

    os.environ.setdefault("SPARK_CONNECT_RELEASE_SESSION_ON_EXIT", "true")
    with suppress(ServerUnreachable):
        return connect_to(server.url)
    return None


def has_own_spark() -> bool:
    """Whether this process runs a Spark, beside which it can be no client of a server."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return getattr(context, "_active_spark_context", None) is not None


def is_served(spark: "SparkSession", target: Target) -> bool:
    """Whether the session of a local target is one on the lake's server."""
    return not hasattr(spark, "_jsparkSession") and find_server(target) is not None


def wait_for(target: Target, shown: str) -> None:
    """Waits until the server shows the tables and views of this digest.

    Raises:
        ServerUnreachable: it has ended, or does not show them in time.
    """
    until = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < until:
        server = find_server(target)
        if server is not None and server.shown == shown:
            return
        time.sleep(GLANCE_SECONDS)
    raise ServerUnreachable(
        f"the lake's server does not show its tables as they are for {LONGEST_WAIT:.0f} s",
        "`lakehouse serve --stop`, then ask again",
    )


def _server_file(target: Target) -> Path:
    return Path(target.lake, FILE)


def _find_service(spark: "SparkSession") -> "JavaObject":
    """Java's Connect server. This process is the server's own: it has a classic session."""
    loader = spark._jsparkSession.getClass().getClassLoader()
    return loader.loadClass(_SERVICE).getField("MODULE$").get(None)
