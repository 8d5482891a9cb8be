"""A user in a machine: acts of people in any order, each followed by what must hold.

LAKEHOUSE_SEQUENCES says how many sequences the long test plays, LAKEHOUSE_SEED with which lake it
begins; a sequence is the twelve acts of one table. `serve` is no act: a lake's server is a second
Java, and its answers have tests of their own.
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
from tests.spark.machine.driver import TABLES, draw, play, shorten

QUICK_LAKE, QUICK_TABLES = 8, 2
MANY, LONG_SECONDS = int(os.environ.get("LAKEHOUSE_SEQUENCES", "2000")), 2_400.0
FIRST = int(os.environ.get("LAKEHOUSE_SEED", "0"))
SHRINKING = 600.0

pytestmark = pytest.mark.skipif(REMOTE is not None, reason="it counts the writes of a session here")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short name, as paths stand in messages."""
    monkeypatch.setenv("COLUMNS", "80")
    made = Path(tempfile.mkdtemp(prefix="m"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def play_lake(folder: Path, seed: int, tables: int) -> None:
    """Plays the sequences of one lake; fails with the shortest script."""
    found = play(seed, draw(seed, tables), folder)
    if found is not None:
        pytest.fail(str(shorten(found, folder, SHRINKING)))


def test_whatever_people_do_gold_is_right_or_the_product_says_why(
    spark: SparkSession, folder: Path
) -> None:
    play_lake(folder, QUICK_LAKE, QUICK_TABLES)


@pytest.mark.slow
def test_the_same_for_forty_minutes(spark: SparkSession, folder: Path) -> None:
    until, seed = time.monotonic() + LONG_SECONDS, FIRST
    while time.monotonic() < until and (seed - FIRST) * TABLES < MANY:
        play_lake(folder, seed, TABLES)
        seed += 1
    print(f"{(seed - FIRST) * TABLES} sequences in {seed - FIRST} lakes")
