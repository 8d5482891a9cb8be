"""Damage from outside: a clear error with the way out, and nothing lost after it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.job import ingest
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Target
from lakehouse.ways_out import with_way_out
from silver.job import apply
from tests import lake

pytestmark = pytest.mark.slow


def orders() -> Table:
    source = {"format": "ydb", "path": "orders"}
    return Table.model_validate({"table": "orders", "keys": ["id"], "source": source})


def land(target: Target, file: str, *keys: int) -> Path:
    lines = [json.dumps({"key": [k], "update": {"v": "x"}, "ts": [k, 1]}) for k in keys]
    lake.land(target, "orders", file, lines)
    return Path(target.landing, "orders", file)


def taken(spark: SparkSession, target: Target) -> Entry:
    return ingest(spark, target, [orders()], "r", lambda line: None)[0]


def keys(spark: SparkSession, target: Target) -> list[object]:
    lake.run(spark, target, [orders()])
    return sorted(row["id"] for row in lake.rows(spark, target, "orders"))


def test_a_damaged_bronze_file_is_named_and_put_back(spark: SparkSession, target: Target) -> None:
    land(target, "a", 1, 2)
    assert taken(spark, target).counts == {"records": 2}
    (file,) = Path(target.lake, "bronze", "orders").glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(b"x" * len(content))
    (entry,) = apply(spark, target, [orders()], "r", lambda line: None)
    assert entry.status == "failed"
    told = with_way_out(entry.message)
    assert file.name in told
    assert "put it back from a copy" in told
    file.write_bytes(content)
    assert keys(spark, target) == [1, 2]


def test_a_damaged_checkpoint_is_named_and_can_be_thrown_away(
    spark: SparkSession, target: Target
) -> None:
    land(target, "a", 1)
    taken(spark, target)
    (offsets,) = Path(target.checkpoints).rglob("offsets/0")
    offsets.write_text("nonsense")
    land(target, "b", 2)
    entry = taken(spark, target)
    assert entry.status == "failed"
    assert "remove the feed's folder below checkpoints" in with_way_out(entry.message)
    shutil.rmtree(Path(target.checkpoints, "bronze", "orders"))
    assert keys(spark, target) == [1, 2]


def test_a_clock_that_jumps_loses_no_file(spark: SparkSession, target: Target) -> None:
    for year, file in ((4_000_000_000, "a"), (86_400, "b"), (1_700_000_000, "c")):
        os.utime(land(target, file, year), (year, year))
        taken(spark, target)
    assert keys(spark, target) == [86_400, 1_700_000_000, 4_000_000_000]
