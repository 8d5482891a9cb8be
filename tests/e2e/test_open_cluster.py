"""An open cluster over an object store: its workers have Python and the libraries, no lakehouse."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e import parts
from tests.e2e.cluster import cluster
from tests.e2e.one_table import answer, command, events, succeeds
from tests.e2e.parts import ROOT
from tests.e2e.test_object_storage import EVENTS, ONCE, ROWS, StoreLake, rows, url

__all__ = ["url"]
pytestmark = [pytest.mark.live, pytest.mark.slow]


def bare_python(folder: Path) -> Path:
    """A Python that does not find this clone, as on a machine that never had it."""
    folder.mkdir()
    hidden = f"import sys\nsys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]\n"
    (folder / "sitecustomize.py").write_text(hidden)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


def test_a_cluster_gives_the_rows_of_one_machine_whatever_dies(tmp_path: Path, url: str) -> None:
    records, python = list(events(1, EVENTS)), bare_python(tmp_path / "bare")
    found = subprocess.run([python, "-c", "import silver"], cwd=tmp_path, check=False)
    assert found.returncode != 0
    with cluster(tmp_path, ("one", "two")) as master:
        workers = parts.STARTED[-2:]
        lake = StoreLake(tmp_path, url, "spread", kind="cluster", master=master)
        with (tmp_path / "conf" / "targets" / "local.yml").open("a") as target:
            target.write(f"  spark.pyspark.python: {python}\n")
        lake.drop(1, records[:1000])
        succeeds("run", lake.options)
        assert answer(lake.options, ROWS) == rows(1000)
        assert [len(list((tmp_path / name).glob("app-*"))) > 0 for name in ("one", "two")] == [
            True, True
        ]  # fmt: skip
        lake.drop(2, records[1000:1500])
        lake.killed(20)
        lake.drop(3, records[1500:])
        before = len(list((tmp_path / "two").glob("app-*")))
        run = subprocess.Popen(command("run", [*lake.options, "--merge"]))
        parts.wait_for(
            lambda: len(list((tmp_path / "two").glob("app-*"))) > before, 120, "an executor"
        )
        time.sleep(5)
        os.killpg(workers[1].popen.pid, signal.SIGKILL)
        assert run.wait(300) == 0
        assert answer(lake.options, ROWS) == rows(EVENTS)
        assert answer(lake.options, ONCE) == [{"records": EVENTS, "offsets": EVENTS}]
