"""The same job on a Spark cluster: two workers in processes of their own give the same rows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gold.views.catalog import read_view
from lakehouse.config.loading import load_tables
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.e2e.cluster import cluster
from tests.e2e.parts import ROOT
from tests.helpers.captures import CONFIGURATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lake(root: Path, master: str) -> Target:
    """A lake that has taken in the demo's events, on that Spark."""
    (root / "conf" / "targets").mkdir(parents=True)
    (root / "conf" / "tables").mkdir()
    for conf in CONFIGURATIONS:
        shutil.copytree(conf / "tables", root / "conf" / "tables", dirs_exist_ok=True)
    (root / "conf" / "targets" / "local.yml").write_text(f"kind: local\nmaster: {master}\n")
    given = ["--conf", str(root / "conf"), "--root", str(root)]
    command = [sys.executable, "-m", "lakehouse", "demo", *given]
    env = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return Target(root=str(root))


def rows(spark: "SparkSession", target: Target, view: str) -> list[str] | None:
    """The rows of a view of gold in some order of their own; None where there is no such view."""
    shown = read_view(Lake(spark, target), view)
    return None if shown is None else sorted(map(repr, shown.collect()))


@pytest.mark.slow
def test_two_workers_give_the_rows_that_one_machine_gives(
    tmp_path: Path, spark: "SparkSession"
) -> None:
    alone = lake(tmp_path / "alone", "local[2]")
    with cluster(tmp_path, ("one", "two")) as master:
        spread = lake(tmp_path / "spread", master)
    workers = [len(list((tmp_path / name).glob("app-*"))) for name in ("one", "two")]
    assert workers == [1, 1]
    tables = [table.table for table in load_tables(tmp_path / "alone" / "conf")]
    views = [*tables, *(f"{table}_history" for table in tables)]
    found = {view: rows(spark, alone, view) for view in views}
    assert {view: rows(spark, spread, view) for view in views} == found
    assert len([view for view in views if found[view]]) >= len(tables)
