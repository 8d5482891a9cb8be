"""A job's graph run from its YAML on a local Spark, each task a process of the wheel's programs."""

import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.loading import load_tables
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.bundle.conftest import ended
from tests.bundle.lint.reading import Bundle, read
from tests.bundle.runner import Program, Step, run
from tests.helpers import lakes
from tests.helpers.captures import check, lines

TABLES = ("customers", "orders")
CAPTURE = "small_with_schemas"


@pytest.fixture
def bundle(project: Path, tmp_path: Path) -> Bundle:
    """The bundle as it is deployed to a folder: its configuration, of a few tables only."""
    deployed = tmp_path / "files"
    shutil.copytree(project / "conf" / "targets", deployed / "conf" / "targets")
    (deployed / "conf" / "tables").mkdir()
    for table in TABLES:
        shutil.copy(project / "conf" / "tables" / f"{table}.yml", deployed / "conf" / "tables")
    bundle = read(project, "dev")
    return bundle._replace(known=bundle.known | {"workspace.file_path": str(deployed)})


def on_a_local_lake(programs: Path, root: Path) -> dict[str, Program]:
    """The wheel's programs, called with what the job gives them and a root besides."""
    here = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    def program(name: str) -> Program:
        def call(arguments: list[str]) -> int:
            done = ended(programs / name, *arguments, f"--root={root}", folder=root, **here)
            print(name, done.stdout, done.stderr, sep="\n")
            return done.returncode

        return call

    return {name: program(name) for name in ("bronze", "silver", "gold", "lakehouse")}


def test_every_job_leaves_right_tables_of_captured_events(
    bundle: Bundle, programs: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """The main job, then with maintenance, a replay, a rebuild; then quality and the report."""
    target, called = Target(root=str(tmp_path)), on_a_local_lake(programs, tmp_path)
    lakes.land(target, "shop", "events.jsonl", lines(CAPTURE))
    assert run(bundle, "cdc", called) == [Step("cdc", "run", "done")]
    tables = load_tables(tmp_path / "files" / "conf")
    check(Lake(spark, target), CAPTURE, tables)
    asking = (("maintenance", {}), ("dead_letter_replay", {}), ("rebuild", {"table": "orders"}))
    for job, given in asking:
        steps = run(bundle, job, called, given)
        assert {step.state for step in steps} == {"done"}
        check(Lake(spark, target), CAPTURE, tables)
    refused = run(bundle, "rebuild", called)
    assert refused[-1] == Step("rebuild", "cdc", "failed")
    reports = tmp_path / "reports"
    known = {**bundle.known, "resources.volumes.reports.volume_path": str(reports)}
    checked = run(bundle._replace(known=known), "quality", called)
    assert [step.state for step in checked] == ["done", "done"]
    assert (reports / "report.html").is_file() and list(reports.rglob("index.html"))
