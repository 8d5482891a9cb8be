"""Captured Debezium events, through all layers, give the tables that PostgreSQL held."""

import pytest

from lakehouse.storage.lake import Lake
from tests.helpers import lakes
from tests.helpers.captures import check, lines, shop


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["small_with_schemas", "edge_slot"])
def test_every_captured_table_equals_its_truth(lake: Lake, capture: str) -> None:
    tables = shop()
    lakes.land(lake.target, "shop", "one.jsonl", lines(capture))
    lakes.run(lake, tables)
    check(lake, capture, tables)


@pytest.mark.slow
def test_landing_a_capture_twice_changes_no_row(lake: Lake) -> None:
    tables = [t for t in shop() if t.keys]
    for name in ("one.jsonl", "two.jsonl"):
        lakes.land(lake.target, "shop", name, lines("small"))
        lakes.run(lake, tables)
        check(lake, "small", tables)


@pytest.mark.slow
def test_ten_batches_give_the_truth(lake: Lake) -> None:
    chosen = [t for t in shop() if t.table in ("products", "orders", "staging")]
    events = lines("small")
    for batch in range(10):
        lakes.land(lake.target, "shop", f"{batch:02}.jsonl", events[batch * 44 : (batch + 1) * 44])
        lakes.run(lake, chosen)
    check(lake, "small", chosen)


@pytest.mark.slow
def test_one_file_per_event_gives_the_truth(lake: Lake) -> None:
    chosen = [t for t in shop() if t.table in ("products", "customers")]
    for at, line in enumerate(lines("small")):
        lakes.land(lake.target, "shop", f"{at:06}.jsonl", [line])
    lakes.run(lake, chosen)
    check(lake, "small", chosen)
