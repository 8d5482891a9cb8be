"""A consistency group of which one member's feed has shown no event yet."""

import json

import pytest

from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from tests.helpers import lakes


def member(name: str) -> Table:
    source = {"format": "debezium", "path": "shop", "topic": f"s.{name}"}
    given = {"table": name, "source": source, "keys": ["id"], "consistency_group": "shop"}
    return Table.model_validate(given | {"columns": {"id": "int", "name": "string"}})


def line(name: str, offset: int, id: int, value: object) -> str:
    origin = {"topic": f"s.{name}", "partition": 0, "offset": offset}
    return json.dumps(origin | {"key": {"id": id}, "value": value})


def order(id: int) -> dict[str, object]:
    source = {"connector": "postgresql", "name": "s", "lsn": id, "ts_ms": 1_700_000_000_000 + id}
    return {"op": "c", "after": {"id": id, "name": "a"}, "source": source}


@pytest.mark.slow
def test_a_member_whose_feed_has_only_tombstones_waits_and_is_told(lake: Lake) -> None:
    tables = [member("orders"), member("people")]
    flat = {"id": 7, "name": "b", "__lsn": 9, "__source_ts_ms": 1_700_000_000_009}
    arrivals = [
        [line("orders", 0, 1, order(1)), line("people", 0, 5, None)],
        [line("orders", 1, 2, order(2))],
        [line("people", 1, 7, flat)],
    ]
    told = []
    for number, lines in enumerate(arrivals):
        lakes.land(lake.target, "shop", f"{number}.jsonl", lines)
        told.append(_waiting(lakes.run(lake, tables)))
        assert len(lakes.rows(lake, "orders")) == min(number + 1, 2)

    assert told == [1, 1, 0]
    assert lakes.rows(lake, "people") == [{"id": 7, "name": "b"}]
    for table in lakes.status(lake, tables):
        assert table["accounted"], table["counts"]
        assert table["counts"]["records"] == 2


def _waiting(entries: list[Entry]) -> int:
    """How many records of people wait, as the run says."""
    own = [e for e in entries if (e.layer, e.table) == ("silver", "people")]
    return sum(entry.counts.get("waiting", 0) for entry in own)
