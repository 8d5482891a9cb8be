"""A Spark Connect server with Delta on this machine, from the pyspark wheel alone."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.spark.java import use_java
from lakehouse.spark.local_settings import local_settings
from lakehouse.spark.scratch import make_temporary
from tests.helpers.wheel import build_wheel, install_wheel

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
LONGEST_START = 180.0
PACKAGES = "spark.jars.packages"


@contextmanager
def serving(folder: Path, port: int | None = None) -> Iterator[str]:
    """The url of a server that lives as long as the context; it writes below `folder` only.

    It listens on `port`, or on one that is free.

    It has the settings of a local lake. Its Python workers have the wheel and nothing else of this
    project: functions that are sent there are imported from the wheel, as in a workspace.

    Raises:
        RuntimeError: it ended, or did not answer, instead of starting; its log is named.
    """
    use_java()
    port, log = port or free_port(), folder / "server.log"
    (folder / "cwd").mkdir(parents=True, exist_ok=True)
    make_temporary(f"{folder}/lake")
    environment = _environment(_worker_python(folder))
    with log.open("wb") as output:
        server = subprocess.Popen(
            _command(folder, port), cwd=folder / "cwd", env=environment,
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _wait(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        _stop(server)


def _command(folder: Path, port: int) -> list[str]:
    """spark-submit, which becomes the server's own process."""
    settings = {
        **local_settings(Target(root=str(folder)), os.cpu_count() or 1),
        PACKAGES: _delta(),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    return [submit, "--master", "local[2]", *options, "--class", MAIN, "spark-internal"]


def _delta() -> str:
    """Maven coordinates of Delta, as its own wheel gives them to a session."""
    options: dict[str, str] = vars(configure_spark_with_delta_pip(SparkSession.Builder()))[
        "_options"
    ]
    return options[PACKAGES]


def _worker_python(folder: Path) -> Path:
    """An interpreter with the wheel; made once for all servers of the folder."""
    programs = folder / "python" / "bin"
    if not programs.exists():
        install_wheel(build_wheel(folder / "dist"), folder / "python")
    return programs / "python"


def _environment(python: Path) -> dict[str, str]:
    left_out = ("PYTHONPATH", "SPARK_REMOTE")
    inherited = {key: value for key, value in os.environ.items() if key not in left_out}
    home = str(Path(pyspark.__file__).parent)
    return inherited | {
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "TZ": "UTC",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + LONGEST_START
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    last = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise RuntimeError(f"no Spark Connect server, see {log}:\n{last}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
