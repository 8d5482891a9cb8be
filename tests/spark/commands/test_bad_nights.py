"""Damage from outside: a clear error with the way out, and nothing lost after it."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from bronze.job import ingest
from cdc_lakehouse.cli.work.rounds import Round, do_layer, list_failures
from lakehouse.config.table import Table
from lakehouse.config.target import Layer, Target
from lakehouse.errors import ManyTablesFailed
from lakehouse.remedies import with_remedy
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from silver.job import apply
from tests.helpers import lakes

pytestmark = pytest.mark.slow
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")


def orders() -> Table:
    source = {"format": "ydb", "path": "orders"}
    return Table.model_validate({"table": "orders", "keys": ["id"], "source": source})


def land(target: Target, file: str, *keys: int) -> Path:
    lines = [json.dumps({"key": [k], "update": {"v": "x"}, "ts": [k, 1]}) for k in keys]
    lakes.land(target, "orders", file, lines)
    return Path(target.landing, "orders", file)


def taken(lake: Lake) -> Entry:
    return ingest(lake, [orders()], "r", lambda line: None)[0]


def keys(lake: Lake) -> list[object]:
    lakes.run(lake, [orders()])
    return sorted(row["id"] for row in lakes.rows(lake, "orders"))


def test_a_damaged_bronze_file_is_named_and_put_back(lake: Lake) -> None:
    land(lake.target, "a", 1, 2)
    assert taken(lake).counts == {"records": 2}
    (file,) = Path(lake.target.lake, "bronze", "orders").glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(b"x" * len(content))
    (entry,) = apply(lake, [orders()], "r", lambda line: None)
    assert entry.status == "failed"
    told = with_remedy(entry.message)
    assert file.name in told
    assert "put it back from a copy" in told
    file.write_bytes(content)
    assert keys(lake) == [1, 2]


@pytest.mark.parametrize(
    ("place", "ends"),
    [
        ("bronze/orders", ["failed", "failed", "ok"]),
        ("silver/orders_changes", ["ok", "failed", "ok"]),
        ("silver/orders", ["ok", "failed", "failed"]),
    ],
)
def test_a_damaged_log_of_one_table_stops_no_other(lake: Lake, place: str, ends: list[str]) -> None:
    source = {"format": "ydb", "path": "items"}
    items = Table.model_validate({"table": "items", "keys": ["id"], "source": source})
    line = json.dumps({"key": [1], "update": {"v": "x"}, "ts": [1, 1]})

    def run() -> list[list[str]]:
        tables = [orders(), items]
        return [
            [entry.status for entry in do_layer(Round(lake, "r"), tables, layer, lambda line: None)]
            for layer in LAYERS
        ]

    lakes.land(lake.target, "items", "a", [line])
    land(lake.target, "a", 1)
    assert run() == [["ok", "ok"]] * 3
    log = Path(lake.target.lake, place, "_delta_log")
    newest = max(int(file.stem) for file in log.glob("*.json"))
    damaged = log / f"{newest + 1:020d}.json"
    damaged.write_text("nonsense")
    land(lake.target, "b", 2)
    lakes.land(lake.target, "items", "b", [line.replace("1", "2")])
    assert run() == [[end, "ok"] for end in ends]
    assert sorted(row["id"] for row in lakes.rows(lake, "items")) == [1, 2]
    damaged.unlink()
    assert keys(lake) == [1, 2]


def test_a_damaged_checkpoint_is_named_and_can_be_thrown_away(lake: Lake) -> None:
    land(lake.target, "a", 1)
    taken(lake)
    (note,) = Path(lake.target.checkpoints).rglob("taken/*.json")
    note.write_text("nonsense")
    land(lake.target, "b", 2)
    entry = taken(lake)
    assert entry.status == "failed"
    assert "remove the feed's folder below checkpoints" in with_remedy(entry.message)
    shutil.rmtree(Path(lake.target.checkpoints, "bronze", "orders"))
    assert keys(lake) == [1, 2]


def test_a_clock_that_jumps_loses_no_file(lake: Lake) -> None:
    for year, file in ((4_000_000_000, "a"), (86_400, "b"), (1_700_000_000, "c")):
        os.utime(land(lake.target, file, year), (year, year))
        taken(lake)
    assert keys(lake) == [86_400, 1_700_000_000, 4_000_000_000]


def test_a_broker_that_is_down_is_named_at_once_and_stops_no_other_table(lake: Lake) -> None:
    kafka = {"topic": "t", "bootstrap_servers": "127.0.0.1:1"}
    source = {"format": "ydb", "kafka": kafka}
    topic = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    land(lake.target, "a", 1)
    began, entries = time.monotonic(), list[Entry]()
    given = Round(lake, "r")
    for layer in LAYERS:
        entries += do_layer(given, [topic, orders()], layer, lambda line: None)
    assert time.monotonic() - began < 60
    told = list_failures(entries)
    assert [str(failure).partition("\n")[0] for failure in told] == [
        "bronze t: no Kafka broker can be reached: 127.0.0.1:1 (connection refused)"
    ]
    assert ManyTablesFailed(told).exit_code == 3
    assert len(lakes.rows(lake, "orders")) == 1
