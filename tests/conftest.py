import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes tells of the machine, not of the code.
settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")

REMOTE = os.environ.get("LAKEHOUSE_TEST_REMOTE")


def target_at(root: Path) -> Target:
    """A lake below `root`; on the Spark Connect server LAKEHOUSE_TEST_REMOTE when it is set."""
    where = {"kind": "connect", "remote": REMOTE} if REMOTE else {"kind": "local"}
    return Target(root=str(root), master="local[2]", **where)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """An empty lake of the test's own."""
    return target_at(tmp_path)


@pytest.fixture
def lake(spark: "SparkSession", target: Target) -> Lake:
    """That lake with the session of all tests."""
    return Lake(spark, target)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from lakehouse.spark.session import get_spark

    session = get_spark(target_at(tmp_path_factory.mktemp("session")))
    yield session
    session.stop()
