"""Orders and their items in one consistency group: gold never shows half a transaction."""

import pytest
from pyspark.sql import SparkSession

from gold.status.table_status import read_status
from gold.views import groups
from lakehouse.config.target import Target
from tests.helpers import lake
from tests.helpers.shop import Source, land, shop, shown

pytestmark = pytest.mark.slow


def waits(spark: SparkSession, target: Target) -> int:
    return groups.find_waiting(spark, target, shop())["shop"].transactions


def sums(spark: SparkSession, target: Target, table: str) -> dict[str, int]:
    """All counts of a table over all runs."""
    (found,) = read_status(spark, target, [t for t in shop() if t.table == table])
    counts: dict[str, int] = found["counts"]
    return counts


def test_files_cut_within_transactions_never_show_half_of_one(
    spark: SparkSession, target: Target
) -> None:
    source, tables = Source(), shop()
    first, second = source.order(1, 2), source.order(2, 3)
    lines = [*first, *second]
    cut = len(first) + 3
    land(target, "1", lines[:2])
    lake.run(spark, target, tables)
    assert shown(spark, target) == {}
    land(target, "2", lines[2:cut])
    lake.run(spark, target, tables)
    assert shown(spark, target) == {1: 2}
    assert waits(spark, target) == 1
    land(target, "3", lines[cut:])
    lake.run(spark, target, tables)
    assert shown(spark, target) == {1: 2, 2: 3}
    assert waits(spark, target) == 0
    for table, records in (("orders", 2), ("order_items", 5)):
        counts = sums(spark, target, table)
        assert (counts["records"], counts["inserted"], counts.get("waiting", 0)) == (
            records,
            records,
            0,
        )
