"""A run that is killed at any moment is ended by the next one, as if nothing had happened."""

import json
import os
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.contract import feed_name
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.conftest import REMOTE, target_at
from tests.helpers import lakes
from tests.helpers.moments import Moments, restore

MOST = int(os.environ.get("LAKEHOUSE_MOMENTS", "4"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(REMOTE), reason="stops Java: unset LAKEHOUSE_TEST_REMOTE"),
]


def table(**more: object) -> Table:
    source = {"format": "debezium", "path": "t"}
    columns = {"id": "int", "n": "int"}
    given = {"table": "t", "keys": ["id"], "source": source, "columns": columns}
    return Table.model_validate(given | more)


def land(target: Target, file: int) -> None:
    """Sixty changes of a few rows, and lines that no one can read."""
    chance, lines, live = random.Random(file), [], set[int]()
    for at in range(60 * file, 60 * file + 60):
        key = chance.randrange(10)
        gone = key in live and chance.random() < 0.3
        live ^= {key} if gone or key not in live else set()
        row = {"id": key, "n": at}
        source = {"connector": "postgresql", "lsn": 1000 + at, "txId": at, "ts_us": 10**15 + at}
        change = {"before": row if gone else None, "after": None if gone else row}
        value = change | {"source": source, "op": "d" if gone else "u"}
        lines.append(json.dumps({"topic": "t", "offset": at, "key": {"id": key}, "value": value}))
    lakes.land(target, "t", f"{file}.jsonl", [*lines, f"no record {file}"])


def shown(lake: Lake, table: Table) -> list[list[str]]:
    """What gold shows, and how often bronze has each record."""
    views = ["t", *(["t_history"] if table.stored_as_scd_type == 2 else [])]
    rows = [sorted(map(str, lakes.rows(lake, view))) for view in views]
    arrived = lake.name("bronze", feed_name(table, table.feeds[0]))
    refused = lake.name("silver", "t_dead_letters")
    records = [lake.spark.table(arrived).select("_raw"), lake.spark.table(refused).select("raw")]
    return [*rows, *(sorted(map(str, found.collect())) for found in records)]


@pytest.mark.parametrize("more", [{}, {"stored_as_scd_type": 2}, {"max_staleness": "0s"}])
def test_what_a_kill_leaves_is_brought_to_its_end(
    spark: SparkSession, tmp_path: Path, more: dict[str, object]
) -> None:
    config, was = table(**more), target_at(tmp_path / "was")
    kept: list[tuple[int, Path]] = []
    for file in (0, 1):
        place = tmp_path / f"kept{file}"
        place.mkdir()
        Path(was.lake).mkdir(parents=True, exist_ok=True)
        land(was, file)
        with Moments(Path(was.lake), place):
            lakes.run(Lake(spark, was), [config])
        kept += [(file, moment) for moment in sorted(place.iterdir())]
    assert kept
    want = shown(Lake(spark, was), config)
    for _, moment in random.Random(len(kept)).sample(kept, min(MOST, len(kept))):
        restore(spark, moment, Path(was.root))
        land(was, 0)
        land(was, 1)
        lakes.run(Lake(spark, was), [config])
        assert shown(Lake(spark, was), config) == want, moment
