"""Functions run in the server's Python: another version, or no wheel there, is told beforehand."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.front import open_lake
from lakehouse.errors import SparkUnavailable
from lakehouse.spark import session
from lakehouse.storage.lake import Lake
from tests.conftest import REMOTE

pytestmark = pytest.mark.skipif(
    REMOTE is None, reason="no server in LAKEHOUSE_TEST_REMOTE: make test-connect"
)


def test_a_client_of_another_python_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client tells the server its version with each function."""
    open_lake(lake.target, [], sends_functions=True)
    monkeypatch.setattr(sys, "version_info", (3, 9, 0))
    with pytest.raises(SparkUnavailable, match=r"differs from Python 3\.9 here"):
        open_lake(lake.target, [], sends_functions=True)
    assert open_lake(lake.target, []).spark.sql("SELECT 1 AS one").collect()[0]["one"] == 1


def test_a_server_without_the_wheel_is_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def same_batches(batches):\n    return batches\n")
    monkeypatch.syspath_prepend(tmp_path)
    only_here = importlib.import_module("only_here")
    monkeypatch.setattr(session, "same_batches", only_here.same_batches)
    with pytest.raises(SparkUnavailable, match="cannot import"):
        open_lake(lake.target, [], sends_functions=True)


def test_the_server_imports_the_wheel_and_not_the_projects_folder(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = importlib.import_module("silver.decode.spark").__file__
            yield pa.RecordBatch.from_pylist([{"file": found}])

    [row] = spark.range(1).coalesce(1).mapInArrow(look, "file string").collect()
    assert "site-packages" in Path(row["file"]).parts
