"""A member of a consistency group that is repaired goes on showing what the others show."""

import json
from pathlib import Path

import pytest
import yaml
from pyspark.sql import functions as F

from cdc_lakehouse.cli.commands import app
from cdc_lakehouse.cli.front import run_command_line
from cdc_lakehouse.cli.work.erase import Erasure, erase_key
from cdc_lakehouse.cli.work.rebuild import rebuild_table
from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.errors import TableFailed
from lakehouse.storage.lake import Lake
from silver import job as silver
from silver.audit.verify import verify
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from tests.conftest import REMOTE
from tests.helpers import lakes
from tests.helpers.arrivals import arrive
from tests.helpers.lakes import quiet
from tests.helpers.shop import Source, shop, shown

ORDERS, ITEMS = shop()
AT_MOST_ONE = {"type": "expect_column_values_to_be_between", "column": "items", "max_value": 1}
STRICT = [Table.model_validate(ORDERS.model_dump() | {"expectations": [AT_MOST_ONE]}), ITEMS]


def come(lake: Lake, lines: list[str], batch: int) -> None:
    arrive(lake, ORDERS, [json.loads(line) for line in lines], batch)


def rebuild(lake: Lake, table: Table) -> None:
    rebuild_table(lake, table, quiet, shop())


def broken(lake: Lake, table: Table) -> list[str]:
    return [law.law for law in verify(lake, table, {}) if not law.holds]


@pytest.mark.slow
def test_a_table_built_anew_stays_with_the_transactions_that_are_shown(lake: Lake) -> None:
    source, tables = Source(), shop()
    first, second, third = source.order(1, 2), source.order(2, 1), source.order(3, 1)
    come(lake, [*first, *second[:2]], 1)
    lakes.settle(lake, tables)
    come(lake, third[:3], 2)
    lakes.settle(lake, tables)
    assert shown(lake) == {1: 2}
    assert broken(lake, ORDERS) == []
    rebuild(lake, ORDERS)
    assert shown(lake) == {1: 2}
    assert broken(lake, ORDERS) == []
    come(lake, [*second[2:], *third[3:]], 3)
    lakes.settle(lake, tables)
    assert shown(lake) == {1: 2, 2: 1, 3: 1}
    assert broken(lake, ORDERS) == []


@pytest.mark.slow
def test_a_table_built_anew_takes_the_others_along_to_what_a_killed_run_has_applied(
    lake: Lake,
) -> None:
    source, tables = Source(), shop()
    come(lake, source.order(1, 2), 1)
    lakes.settle(lake, tables)
    come(lake, source.order(2, 1), 2)
    silver.apply(lake, tables, "run", quiet)
    assert shown(lake) == {1: 2}
    come(lake, source.order(3, 3), 3)
    rebuild(lake, ORDERS)
    assert shown(lake) == {1: 2, 2: 1}


@pytest.mark.slow
def test_an_erasure_takes_the_whole_group_to_what_has_come(lake: Lake) -> None:
    source, tables = Source(), shop()
    come(lake, source.order(1, 2), 1)
    lakes.settle(lake, tables)
    second, third = source.order(2, 1), source.order(3, 1)
    come(lake, [*second, *third[:2]], 2)
    with pytest.raises(TableFailed, match="wait for their transaction"):
        erase_key(lake, Erasure(ORDERS, {"id": "3"}, False, quiet), tables)
    erase_key(lake, Erasure(ORDERS, {"id": "9"}, False, quiet), tables)
    assert shown(lake) == {1: 2, 2: 1}
    come(lake, third[2:], 3)
    lakes.settle(lake, tables)
    assert shown(lake) == {1: 2, 2: 1, 3: 1}


@pytest.mark.slow
def test_a_replayed_record_is_shown_at_once_but_not_before_its_transaction(lake: Lake) -> None:
    source = Source()
    first, second = source.order(1, 2), source.order(2, 3)
    come(lake, [*first, *second[:2]], 1)
    lakes.settle(lake, STRICT)
    assert replayed(lake) == 1
    assert shown(lake) == {1: 2}
    come(lake, second[2:], 2)
    lakes.settle(lake, shop())
    assert replayed(lake) == 1
    assert shown(lake) == {1: 2, 2: 3}


@pytest.mark.slow
def test_a_replay_publishes_the_whole_group(lake: Lake) -> None:
    source = Source()
    come(lake, source.order(1, 2), 1)
    lakes.settle(lake, STRICT)
    come(lake, source.order(2, 1), 2)
    silver.apply(lake, STRICT, "run", quiet)
    conf = Path(str(lake.target.root), "conf")
    kind = {"kind": "connect", "remote": REMOTE} if REMOTE else {"kind": "local"}
    given = {"targets/local": kind | {"root": str(lake.target.root)}}
    given |= {f"tables/{t.table}": t.model_dump(mode="json", exclude_unset=True) for t in shop()}
    for name, document in given.items():
        (conf / name).parent.mkdir(parents=True, exist_ok=True)
        (conf / f"{name}.yml").write_text(yaml.safe_dump(document))
    run_command_line(app, ["dead-letters", "replay", "--table", "orders", "--conf", str(conf)])
    assert shown(lake) == {1: 2, 2: 1}


def replayed(lake: Lake) -> int:
    """How many orders are good now; they are published."""
    done = replay_table(SilverTable(lake, ORDERS), F.lit(True), "replay")
    gold.publish(lake, shop(), "run", quiet)
    return done.resolved
