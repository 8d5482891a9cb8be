"""A member of a consistency group that is repaired goes on showing what the others show."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold import job as gold
from lakehouse.cli.erase import Erasure, erase_key
from lakehouse.cli.rebuild import rebuild_table
from lakehouse.table import Table
from lakehouse.target import Target
from silver import job as silver
from silver.replay import replay
from silver.verify import verify
from tests import lake
from tests.lake import quiet
from tests.shop import Source, land, shop, shown


def rebuild(spark: SparkSession, target: Target, name: str) -> None:
    (table,) = [table for table in shop() if table.table == name]
    rebuild_table(spark, target, table, quiet, shop())


def broken(spark: SparkSession, target: Target, table: Table) -> list[Any]:
    return [law for law in verify(spark, target, table, {}) if not law.holds]


def test_a_table_built_anew_stays_with_the_transactions_that_are_shown(
    spark: SparkSession, target: Target
) -> None:
    source, tables = Source(), shop()
    first, second, third = source.order(1, 2), source.order(2, 1), source.order(3, 1)
    land(target, "1", [*first, *second[:2]])
    lake.run(spark, target, tables)
    land(target, "2", [line for line in third if '"orders"' in line or '"items": 1' in line])
    lake.run(spark, target, tables)
    assert shown(spark, target) == {1: 2}
    assert [broken(spark, target, table) for table in tables] == [[], []]
    rebuild(spark, target, "orders")
    assert shown(spark, target) == {1: 2}
    assert [broken(spark, target, table) for table in tables] == [[], []]
    land(target, "3", [*second[2:], *third])
    lake.run(spark, target, tables)
    assert shown(spark, target) == {1: 2, 2: 1, 3: 1}
    assert [broken(spark, target, table) for table in tables] == [[], []]


def test_a_table_built_anew_takes_the_others_along_to_what_a_killed_run_has_applied(
    spark: SparkSession, target: Target
) -> None:
    source, tables = Source(), shop()
    land(target, "1", source.order(1, 2))
    lake.run(spark, target, tables)
    land(target, "2", source.order(2, 1))
    lake.bronze.ingest(spark, target, tables, "run", quiet)
    silver.apply(spark, target, tables, "run", quiet)
    assert shown(spark, target) == {1: 2}
    land(target, "3", source.order(3, 3))
    lake.bronze.ingest(spark, target, tables, "run", quiet)
    rebuild(spark, target, "orders")
    assert shown(spark, target) == {1: 2, 2: 1}
    lake.settle(spark, target, tables)
    assert shown(spark, target) == {1: 2, 2: 1, 3: 3}


def test_an_erasure_takes_the_whole_group_to_what_has_come(
    spark: SparkSession, target: Target
) -> None:
    source, tables = Source(), shop()
    land(target, "1", source.order(1, 2))
    lake.run(spark, target, tables)
    land(target, "2", source.order(2, 1))
    lake.bronze.ingest(spark, target, tables, "run", quiet)
    erase_key(spark, target, Erasure(tables[0], {"id": "9"}, False, quiet), tables)
    assert shown(spark, target) == {1: 2, 2: 1}


def test_a_replayed_record_is_shown_at_once_but_not_before_its_transaction(
    spark: SparkSession, target: Target
) -> None:
    rule = {"type": "expect_column_values_to_be_between", "column": "items", "max_value": 1}
    source, tables = Source(), shop()
    strict = [
        tables[0].model_validate(tables[0].model_dump() | {"expectations": [rule]}),
        tables[1],
    ]
    second = source.order(1, 2), source.order(2, 3)
    land(target, "1", [*second[0], *second[1][:2]])
    lake.run(spark, target, strict)
    assert replay(spark, target, tables[0], F.lit(True), "replay").resolved == 1
    gold.publish(spark, target, tables, "run", quiet)
    assert shown(spark, target) == {1: 2}
    land(target, "2", second[1][2:])
    lake.run(spark, target, tables)
    assert replay(spark, target, tables[0], F.lit(True), "replay").resolved == 1
    gold.publish(spark, target, tables, "run", quiet)
    assert shown(spark, target) == {1: 2, 2: 3}
