"""A Spark cluster of this machine: a standalone master and workers, each a process of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from lakehouse.spark.java import system_java, use_java
from tests.e2e import parts
from tests.e2e.parts import Process

JARS = Path(pyspark.__file__).parent / "jars"


@contextmanager
def cluster(folder: Path, workers: Sequence[str]) -> Iterator[str]:
    """The address of a master with workers of one processor and one GB each.

    They work in folders of their names, below `folder`, and are stopped at the end.
    """
    use_java()
    port = str(parts.free_port())
    at = f"spark://127.0.0.1:{port}"
    running = [_daemon(folder / "master", "master.Master", "New state: ALIVE", "--port", port)]
    try:
        for name in workers:
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), at]
            ready = "registered with master"
            running.append(_daemon(folder / name, "worker.Worker", ready, *own))
        yield at
    finally:
        for process in reversed(running):
            process.stop()


def _daemon(folder: Path, kind: str, ready: str, *arguments: str) -> Process:
    """A master or a worker, without its web page's usual port."""
    given = [*arguments, "--host", "127.0.0.1", "--webui-port", "0"]
    command = parts.java([JARS], f"org.apache.spark.deploy.{kind}", *given)
    env = {
        "SPARK_HOME": str(JARS.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
    }
    return parts.start([str(system_java()), *command[1:]], folder / "daemon.log", ready, 120, env)
