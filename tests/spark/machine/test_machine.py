"""A user in a machine: acts of people in any order, each followed by what must hold.

LAKEHOUSE_SEQUENCES says how many sequences the long test plays, LAKEHOUSE_SEED with which it
begins.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import REMOTE
from tests.spark.machine.driver import draw, play, shorten

QUICK, QUICK_SECONDS = 1, 60.0
MANY, LONG_SECONDS = int(os.environ.get("LAKEHOUSE_SEQUENCES", "2000")), 3_600.0
FIRST = int(os.environ.get("LAKEHOUSE_SEED", "0"))
SHRINKING = 300.0

pytestmark = pytest.mark.skipif(REMOTE is not None, reason="it counts the writes of a session here")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short name, as paths stand in messages."""
    monkeypatch.setenv("COLUMNS", "80")
    made = Path(tempfile.mkdtemp(prefix="m"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def play_many(folder: Path, first: int, number: int, seconds: float) -> int:
    """Plays so many sequences, or fewer when the time is over; fails with the shortest script."""
    until = time.monotonic() + seconds
    for played in range(number):
        if time.monotonic() > until:
            return played
        found = play(first + played, draw(first + played), folder)
        if found is not None:
            pytest.fail(str(shorten(found, folder, SHRINKING)))
    return number


def test_whatever_people_do_gold_is_right_or_the_product_says_why(
    spark: SparkSession, folder: Path
) -> None:
    assert play_many(folder, 0, QUICK, QUICK_SECONDS) > 0


@pytest.mark.slow
def test_the_same_for_an_hour(spark: SparkSession, folder: Path) -> None:
    assert play_many(folder, FIRST, MANY, LONG_SECONDS) > 0
