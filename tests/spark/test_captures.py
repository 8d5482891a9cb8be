"""Captured Debezium events, through all layers, give the tables that PostgreSQL held."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.loading import load_tables
from lakehouse.table import Table
from lakehouse.target import Target
from lakehouse.views import stored
from tests import lake, truth

EVENTS = Path(__file__).parents[1] / "fixtures" / "shop" / "events"
TRUE_NAMES = {"mixed_case": "Mixed_Case"}
NOT_FROM_EVENTS = {"accounts"}


def shop() -> list[Table]:
    return load_tables(Path(__file__).parents[2] / "conf")


def lines(capture: str) -> list[str]:
    with gzip.open(EVENTS / f"{capture}.jsonl.gz", "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def check(spark: SparkSession, target: Target, capture: str, tables: list[Table]) -> None:
    for table in tables:
        name = TRUE_NAMES.get(table.table, table.table)
        if table.table in NOT_FROM_EVENTS or (capture == "edge_slot" and name == "late"):
            continue
        types = truth.truth_schema(capture, name)
        got = lake.rows(spark, target, table.table) if _is_there(target, table) else []
        want = truth.truth_rows(capture, name)
        assert comparable(got, types) == comparable(want, types), table.table


def comparable(rows: list[dict[str, Any]], types: dict[str, str]) -> list[dict[str, Any]]:
    return sorted((truth.comparable(row, types) for row in rows), key=repr)


def _is_there(target: Target, table: Table) -> bool:
    return table.table in stored(target, "gold")


@pytest.mark.parametrize("capture", ["small_with_schemas", "edge_slot"])
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
