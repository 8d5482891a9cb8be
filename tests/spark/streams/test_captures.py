"""Captured Debezium events, through all layers, give the tables that PostgreSQL held."""

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from tests.helpers import lake
from tests.helpers.captures import check, lines, shop


@pytest.mark.parametrize(
    "capture", ["small_with_schemas", pytest.param("edge_slot", marks=pytest.mark.slow)]
)
def test_every_captured_table_equals_its_truth(
    spark: SparkSession, target: Target, capture: str
) -> None:
    tables = shop()
    lake.land(target, "shop", "one.jsonl", lines(capture))
    lake.run(spark, target, tables)
    check(spark, target, capture, tables)


@pytest.mark.slow
def test_landing_a_capture_twice_changes_no_row(spark: SparkSession, target: Target) -> None:
    tables = [t for t in shop() if t.keys]
    for name in ("one.jsonl", "two.jsonl"):
        lake.land(target, "shop", name, lines("small"))
        lake.run(spark, target, tables)
        check(spark, target, "small", tables)


@pytest.mark.slow
def test_ten_batches_give_the_truth(spark: SparkSession, target: Target) -> None:
    chosen = [t for t in shop() if t.table in ("products", "orders", "staging")]
    events = lines("small")
    for batch in range(10):
        lake.land(target, "shop", f"{batch:02}.jsonl", events[batch * 44 : (batch + 1) * 44])
        lake.run(spark, target, chosen)
    check(spark, target, "small", chosen)


@pytest.mark.slow
def test_one_file_per_event_gives_the_truth(spark: SparkSession, target: Target) -> None:
    chosen = [t for t in shop() if t.table in ("products", "customers")]
    for at, line in enumerate(lines("small")):
        lake.land(target, "shop", f"{at:06}.jsonl", [line])
    lake.run(spark, target, chosen)
    check(spark, target, "small", chosen)
