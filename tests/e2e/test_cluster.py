"""The same job on a Spark cluster: two workers in processes of their own give the same rows."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from gold.catalog import read
from lakehouse.java import system_java, use_java
from lakehouse.loading import load_tables
from lakehouse.target import Target
from tests.e2e import parts
from tests.e2e.parts import ROOT, Process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = Path(pyspark.__file__).parent / "jars"


def daemon(folder: Path, kind: str, ready: str, *arguments: str) -> Process:
    """A master or a worker of a standalone cluster, without its web page's usual port."""
    given = [*arguments, "--host", "127.0.0.1", "--webui-port", "0"]
    command = parts.java([JARS], f"org.apache.spark.deploy.{kind}", *given)
    env = {
        "SPARK_HOME": str(JARS.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
    }
    return parts.start([str(system_java()), *command[1:]], folder / "daemon.log", ready, 120, env)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The master's address."""
    use_java()
    port = str(parts.free_port())
    at = f"spark://127.0.0.1:{port}"
    master = daemon(tmp_path / "master", "master.Master", "New state: ALIVE", "--port", port)
    workers = []
    for name in ("one", "two"):
        own = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / name), at]
        workers.append(daemon(tmp_path / name, "worker.Worker", "registered with master", *own))
    yield at
    for process in (*workers, master):
        process.stop()


def lake(root: Path, master: str) -> Target:
    """A lake that has taken in the demo's events, on that Spark."""
    (root / "conf" / "targets").mkdir(parents=True)
    (root / "conf" / "tables").symlink_to(ROOT / "conf" / "tables")
    (root / "conf" / "targets" / "local.yml").write_text(f"kind: local\nmaster: {master}\n")
    given = ["--conf", str(root / "conf"), "--root", str(root)]
    command = [sys.executable, "-m", "lakehouse", "demo", *given]
    env = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return Target(root=str(root))


def rows(spark: "SparkSession", target: Target, view: str) -> list[str] | None:
    """The rows of a view of gold in some order of their own; None where there is no such view."""
    shown = read(spark, target, view)
    return None if shown is None else sorted(map(repr, shown.collect()))


@pytest.mark.slow
def test_two_workers_give_the_rows_that_one_machine_gives(
    cluster: str, tmp_path: Path, spark: "SparkSession"
) -> None:
    alone, spread = lake(tmp_path / "alone", "local[2]"), lake(tmp_path / "spread", cluster)
    workers = [len(list((tmp_path / name).glob("app-*"))) for name in ("one", "two")]
    assert workers == [1, 1]
    tables = [table.table for table in load_tables(tmp_path / "alone" / "conf")]
    views = [*tables, *(f"{table}_history" for table in tables)]
    found = {view: rows(spark, alone, view) for view in views}
    assert {view: rows(spark, spread, view) for view in views} == found
    assert len([view for view in views if found[view]]) >= len(tables)
