"""The main job from a laptop: databricks-connect, in an environment of its own.

A local Spark Connect server takes the place of the workspace. It has no Auto Loader, so bronze
reads the files as on any other server; silver and gold take their session as with `--target dev`.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lakehouse.config.loading import load_tables, load_target
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import schema_name, table_name
from tests.conftest import REMOTE
from tests.helpers import truth
from tests.helpers.captures import comparable, lines
from tests.helpers.lakes import land

PROJECT = Path(__file__).parents[2]
PYTHON = PROJECT / ".venv-databricks" / "bin" / "python"
TABLES = ("customers", "orders")
CAPTURE = "small_with_schemas"

# Both are made by `make test-connect`, which runs these tests; by themselves they say what lacks.
pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"no databricks-connect in {PYTHON.parents[1]}: make test-connect"
)
on_a_server = pytest.mark.skipif(
    REMOTE is None, reason="no server in LAKEHOUSE_TEST_REMOTE: make test-connect"
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Targets `server` and `workspace` with the same places in a catalog, and some tables."""
    folder = tmp_path / "conf"
    (folder / "tables").mkdir(parents=True)
    (folder / "targets").mkdir()
    for table in TABLES:
        shutil.copy(PROJECT / "conf" / "tables" / f"{table}.yml", folder / "tables")
    places = {
        "catalog": "spark_catalog",
        "schemas": {layer: f"{layer}_of_a_workspace" for layer in ("bronze", "silver", "gold")},
        "landing": str(tmp_path / "landing"),
        "checkpoints": str(tmp_path / "checkpoints"),
    }
    kinds = {"server": {"kind": "connect", "remote": REMOTE}, "workspace": {"kind": "databricks"}}
    for target, kind in kinds.items():
        text = yaml.safe_dump(kind | places)
        (folder / "targets" / f"{target}.yml").write_text(text)
    return folder


def layer_run(layer: str, conf: Path, target: str, **environment: str) -> tuple[int, str]:
    """Exit code and stderr of `python -m LAYER` in databricks-connect's environment."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [PYTHON, "-m", layer, f"--conf={conf}", f"--target={target}"]
    environment = inherited | {"PYTHONPATH": str(PROJECT)} | environment
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=conf, env=environment, check=False
    )
    return done.returncode, done.stderr


def make_schemas(lake: Lake) -> None:
    """What the bundle makes in a workspace."""
    for layer in ("bronze", "silver", "gold"):
        lake.spark.sql(f"CREATE SCHEMA {schema_name(lake.target, layer)}")


@on_a_server
def test_the_main_job_makes_captured_events_right_tables(conf: Path, spark: SparkSession) -> None:
    target = load_target(conf, "workspace")
    make_schemas(Lake(spark, target))
    land(target, "shop", "events.jsonl", lines(CAPTURE))
    for layer, place in (("bronze", "server"), ("silver", "workspace"), ("gold", "workspace")):
        code, told = layer_run(layer, conf, place, SPARK_REMOTE=str(REMOTE))
        assert code == 0, told
    for table in load_tables(conf):
        types = truth.truth_schema(CAPTURE, table.table)
        found = [
            row.asDict() for row in spark.table(table_name(target, "gold", table.table)).collect()
        ]
        want = truth.truth_rows(CAPTURE, table.table)
        assert comparable(found, types) == comparable(want, types), table.table


def test_without_a_workspace_it_says_so(conf: Path, tmp_path: Path) -> None:
    code, told = layer_run("silver", conf, "workspace", HOME=str(tmp_path))
    assert code == 2
    assert "databricks auth login" in told
