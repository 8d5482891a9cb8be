"""An open cluster over an object store: its workers have Python and the libraries, no lakehouse."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cdc_lakehouse.demo.questions import FOLDER, copy_configuration, place_events
from lakehouse.config.loading import load_tables
from lakehouse.config.target import Target
from lakehouse.places.place import to_place, write_whole
from tests.e2e import parts
from tests.e2e.cluster import cluster
from tests.e2e.one_table import answer, command, events, succeeds
from tests.e2e.parts import ROOT
from tests.e2e.test_object_storage import ONCE, ROWS, StoreLake, rows, url

__all__ = ["url"]
pytestmark = [pytest.mark.live, pytest.mark.slow]
EVENTS = 100_000


def bare_python(folder: Path) -> Path:
    """A Python that does not find this clone, as on a machine that never had it."""
    folder.mkdir()
    hidden = f"import sys\nsys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]\n"
    (folder / "sitecustomize.py").write_text(hidden)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


def rows_of_demo(options: list[str]) -> list[str]:
    """All rows of gold's demo tables and their histories, as JSON texts."""
    tables = load_tables(Path(options[1]))
    names = [table.table for table in tables if table.table != "t"]
    names += [f"{table.table}_history" for table in tables if table.stored_as_scd_type == 2]
    selects = [f"SELECT '{n}' AS `table`, to_json(struct(*)) AS row FROM gold.{n}" for n in names]
    return [str(row) for row in answer(options, " UNION ALL ".join(selects) + " ORDER BY ALL")]


def demo_of_one_machine(folder: Path) -> list[str]:
    """The demo's lake on the local disk: its configuration, its dropped files, and its run."""
    conf = copy_configuration(folder / "conf")
    place_events(Target(root=str(folder)), load_tables(conf))
    options = ["--conf", str(conf), "--root", str(folder)]
    succeeds("run", options)
    return rows_of_demo(options)


def test_a_cluster_gives_the_rows_of_one_machine_whatever_dies(tmp_path: Path, url: str) -> None:
    records, python = list(events(1, EVENTS)), bare_python(tmp_path / "bare")
    found = subprocess.run([python, "-c", "import silver"], cwd=tmp_path, check=False)
    assert found.returncode != 0
    of_one_machine = demo_of_one_machine(tmp_path / "one-machine")
    with cluster(tmp_path, ("one", "two")) as master:
        workers = parts.STARTED[-2:]
        lake = StoreLake(tmp_path, url, "spread", kind="cluster", master=master)
        with (tmp_path / "conf" / "targets" / "local.yml").open("a") as target:
            target.write(f"  spark.pyspark.python: {python}\n")
        for table in (tmp_path / "one-machine" / "conf" / "tables").glob("*.yml"):
            shutil.copy(table, tmp_path / "conf" / "tables")
        for file in (tmp_path / "one-machine" / "landing" / FOLDER).iterdir():
            place = to_place(lake.target, lake.target.landing, FOLDER, file.name)
            write_whole(place, file.read_bytes())
        lake.drop(1, records[:1000])
        succeeds("run", lake.options)
        assert answer(lake.options, ROWS) == rows(records[:1000])
        assert rows_of_demo(lake.options) == of_one_machine
        assert [len(list((tmp_path / name).glob("app-*"))) > 0 for name in ("one", "two")] == [
            True, True
        ]  # fmt: skip
        lake.drop(2, records[1000:2000])
        lake.killed(20)
        lake.drop(3, records[2000:])
        before = len(list((tmp_path / "two").glob("app-*")))
        run = subprocess.Popen(command("run", [*lake.options, "--merge"]))
        parts.wait_for(
            lambda: len(list((tmp_path / "two").glob("app-*"))) > before, 120, "an executor"
        )
        time.sleep(5)
        os.killpg(workers[1].popen.pid, signal.SIGKILL)
        assert run.wait(600) == 0
        assert answer(lake.options, ROWS) == rows(records)
        assert answer(lake.options, ONCE) == [{"records": EVENTS, "offsets": EVENTS}]
        assert rows_of_demo(lake.options) == of_one_machine
