"""A member of a consistency group that is repaired goes on showing what the others show."""

import json
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from cdc_lakehouse.cli.work.erase import Erasure, erase_key
from cdc_lakehouse.cli.work.rebuild import rebuild_table
from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import TableFailed
from silver import job as silver
from silver.audit.verify import verify
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from tests.conftest import REMOTE
from tests.helpers import lake
from tests.helpers.arrivals import arrive
from tests.helpers.lake import quiet
from tests.helpers.shop import Source, shop, shown

ORDERS, ITEMS = shop()
AT_MOST_ONE = {"type": "expect_column_values_to_be_between", "column": "items", "max_value": 1}
STRICT = [Table.model_validate(ORDERS.model_dump() | {"expectations": [AT_MOST_ONE]}), ITEMS]


def come(spark: SparkSession, target: Target, lines: list[str], batch: int) -> None:
    arrive(spark, target, ORDERS, [json.loads(line) for line in lines], batch)


def rebuild(spark: SparkSession, target: Target, table: Table) -> None:
    rebuild_table(spark, target, table, quiet, shop())


def broken(spark: SparkSession, target: Target, table: Table) -> list[str]:
    return [law.law for law in verify(spark, target, table, {}) if not law.holds]


@pytest.mark.slow
def test_a_table_built_anew_stays_with_the_transactions_that_are_shown(
    spark: SparkSession, target: Target
) -> None:
    source, tables = Source(), shop()
    first, second, third = source.order(1, 2), source.order(2, 1), source.order(3, 1)
    come(spark, target, [*first, *second[:2]], 1)
    lake.settle(spark, target, tables)
    come(spark, target, third[:3], 2)
    lake.settle(spark, target, tables)
    assert shown(spark, target) == {1: 2}
    assert broken(spark, target, ORDERS) == []
    rebuild(spark, target, ORDERS)
    assert shown(spark, target) == {1: 2}
    assert broken(spark, target, ORDERS) == []
    come(spark, target, [*second[2:], *third[3:]], 3)
    lake.settle(spark, target, tables)
    assert shown(spark, target) == {1: 2, 2: 1, 3: 1}
    assert broken(spark, target, ORDERS) == []


@pytest.mark.slow
def test_a_table_built_anew_takes_the_others_along_to_what_a_killed_run_has_applied(
    spark: SparkSession, target: Target
) -> None:
    source, tables = Source(), shop()
    come(spark, target, source.order(1, 2), 1)
    lake.settle(spark, target, tables)
    come(spark, target, source.order(2, 1), 2)
    silver.apply(spark, target, tables, "run", quiet)
    assert shown(spark, target) == {1: 2}
    come(spark, target, source.order(3, 3), 3)
    rebuild(spark, target, ORDERS)
    assert shown(spark, target) == {1: 2, 2: 1}


@pytest.mark.slow
def test_an_erasure_takes_the_whole_group_to_what_has_come(
    spark: SparkSession, target: Target
) -> None:
    source, tables = Source(), shop()
    come(spark, target, source.order(1, 2), 1)
    lake.settle(spark, target, tables)
    second, third = source.order(2, 1), source.order(3, 1)
    come(spark, target, [*second, *third[:2]], 2)
    with pytest.raises(TableFailed, match="wait for their transaction"):
        erase_key(spark, target, Erasure(ORDERS, {"id": "3"}, False, quiet), tables)
    erase_key(spark, target, Erasure(ORDERS, {"id": "9"}, False, quiet), tables)
    assert shown(spark, target) == {1: 2, 2: 1}
    come(spark, target, third[2:], 3)
    lake.settle(spark, target, tables)
    assert shown(spark, target) == {1: 2, 2: 1, 3: 1}


@pytest.mark.slow
def test_a_replayed_record_is_shown_at_once_but_not_before_its_transaction(
    spark: SparkSession, target: Target
) -> None:
    source = Source()
    first, second = source.order(1, 2), source.order(2, 3)
    come(spark, target, [*first, *second[:2]], 1)
    lake.settle(spark, target, STRICT)
    assert replayed(spark, target) == 1
    assert shown(spark, target) == {1: 2}
    come(spark, target, second[2:], 2)
    lake.settle(spark, target, shop())
    assert replayed(spark, target) == 1
    assert shown(spark, target) == {1: 2, 2: 3}


@pytest.mark.slow
def test_a_replay_publishes_the_whole_group(spark: SparkSession, target: Target) -> None:
    source = Source()
    come(spark, target, source.order(1, 2), 1)
    lake.settle(spark, target, STRICT)
    come(spark, target, source.order(2, 1), 2)
    silver.apply(spark, target, STRICT, "run", quiet)
    conf = Path(str(target.root), "conf")
    kind = {"kind": "connect", "remote": REMOTE} if REMOTE else {"kind": "local"}
    given = {"targets/local": kind | {"root": str(target.root)}}
    given |= {f"tables/{t.table}": t.model_dump(mode="json", exclude_unset=True) for t in shop()}
    for name, document in given.items():
        (conf / name).parent.mkdir(parents=True, exist_ok=True)
        (conf / f"{name}.yml").write_text(yaml.safe_dump(document))
    run_command_line(app, ["dead-letters", "replay", "--table", "orders", "--conf", str(conf)])
    assert shown(spark, target) == {1: 2, 2: 1}


def replayed(spark: SparkSession, target: Target) -> int:
    """How many orders are good now; they are published."""
    done = replay_table(SilverTable.at(spark, target, ORDERS), F.lit(True), "replay")
    gold.publish(spark, target, shop(), "run", quiet)
    return done.resolved
