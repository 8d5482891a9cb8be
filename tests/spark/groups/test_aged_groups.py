"""A consistency group in a lake that is older than Delta lets anybody read old versions."""

import pytest

from cdc_lakehouse.cli.work.maintain import pin_groups, tend_tables
from cdc_lakehouse.cli.work.rounds import Round, try_layer
from gold.job import PINS_LOST
from gold.views import pins
from lakehouse.config.target import LAYERS
from lakehouse.errors import TableFailed
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from lakehouse.storage.past import renew
from silver.groups import group_runs
from tests.helpers.ages import age
from tests.helpers.lakes import quiet
from tests.helpers.shop import Source, land, shop, shown


def work(lake: Lake, layers: tuple[str, ...] = LAYERS) -> list[Entry]:
    """One round; returns its entries."""
    given = Round(lake, "run", shop())
    return [
        e for layer in LAYERS if layer in layers for e in try_layer(given, shop(), layer, quiet)
    ]


def failures(entries: list[Entry]) -> list[str | None]:
    return [entry.message for entry in entries if entry.status == "failed"]


@pytest.mark.slow
def test_a_quiet_group_is_maintained_and_then_read_while_it_is_written(
    lake: Lake,
) -> None:
    source = Source()
    land(lake.target, "1", source.order(1, 2))
    assert failures(work(lake)) == []
    age(lake.spark, lake.target.lake, 9)
    orders = lake.name("silver", "orders")
    lake.spark.sql(f"OPTIMIZE {orders}")
    renew(lake.spark, orders)
    tended = tend_tables(lake, shop(), False, quiet)
    assert failures([*tended, *pin_groups(lake, shop())]) == []
    assert shown(lake) == {1: 2}

    age(lake.spark, lake.target.lake, 9)
    land(lake.target, "2", source.order(2, 3))
    assert failures(work(lake, ("bronze", "silver"))) == []
    assert shown(lake) == {1: 2}, "gold shows the old set until it is published"
    assert failures(work(lake, ("gold",))) == []
    assert shown(lake) == {1: 2, 2: 3}


@pytest.mark.slow
def test_a_set_that_is_lost_while_a_member_fails_is_made_anew_and_said(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source()
    land(lake.target, "1", source.order(1, 2))
    assert failures(work(lake)) == []
    land(lake.target, "2", source.order(2, 3))
    run_table = group_runs.run_table

    def fails(run: group_runs.Run, batch: group_runs.Batch) -> group_runs.TableResult:
        if batch.table.name == "order_items":
            raise TableFailed("order_items", "cannot be written")
        return run_table(run, batch)

    with monkeypatch.context() as patched:
        patched.setattr(group_runs, "run_table", fails)
        assert failures(work(lake)) == ["order_items: cannot be written"]
        assert shown(lake) == {1: 2}
        age(lake.spark, lake.target.lake, 9)
        entries = work(lake)
    assert failures(entries) == ["order_items: cannot be written"]
    lost = {entry.table for entry in entries if entry.counts.get(PINS_LOST)}
    assert lost == {"orders", "order_items"}
    seen = pins.read_views(lake)["orders"].query
    assert {row["id"] for row in lake.spark.sql(seen).collect()} == {1, 2}
    assert failures(work(lake)) == []
    assert shown(lake) == {1: 2, 2: 3}
