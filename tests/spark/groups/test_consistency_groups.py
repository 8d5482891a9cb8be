"""Orders and their items in one consistency group: gold never shows half a transaction."""

import pytest

from gold.views import groups
from lakehouse.storage.lake import Lake
from tests.helpers import lakes
from tests.helpers.shop import Source, land, shop, shown

pytestmark = pytest.mark.slow


def waits(lake: Lake) -> int:
    return groups.find_waiting(lake, shop())["shop"].transactions


def sums(lake: Lake, table: str) -> dict[str, int]:
    """All counts of a table over all runs."""
    (found,) = lakes.status(lake, [t for t in shop() if t.table == table])
    counts: dict[str, int] = found["counts"]
    return counts


def test_files_cut_within_transactions_never_show_half_of_one(lake: Lake) -> None:
    source, tables = Source(), shop()
    first, second = source.order(1, 2), source.order(2, 3)
    lines = [*first, *second]
    cut = len(first) + 3
    land(lake.target, "1", lines[:2])
    lakes.run(lake, tables)
    assert shown(lake) == {}
    land(lake.target, "2", lines[2:cut])
    lakes.run(lake, tables)
    assert shown(lake) == {1: 2}
    assert waits(lake) == 1
    land(lake.target, "3", lines[cut:])
    lakes.run(lake, tables)
    assert shown(lake) == {1: 2, 2: 3}
    assert waits(lake) == 0
    for table, records in (("orders", 2), ("order_items", 5)):
        counts = sums(lake, table)
        assert (counts["records"], counts["inserted"], counts.get("waiting", 0)) == (
            records,
            records,
            0,
        )
