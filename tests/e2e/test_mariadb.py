"""MariaDB → Debezium → files or Kafka → lake, while everything is killed at random.

`init --source` writes the configuration of the lake, and that of the connector.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from cdc_lakehouse.cli.options import Chosen, load_chosen
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.e2e import connector, kafka_broker, mariadb, workload_mariadb
from tests.e2e.live import (
    CATCH_UP_SECONDS,
    FULL,
    Killed,
    arrives,
    ends,
    kill_at_random,
    project,
    run_on,
    snapshots,
    verified,
)
from tests.e2e.mariadb import MariaDb
from tests.e2e.parts import Process, needs_kafka, wait_for
from tests.e2e.writers import write
from tests.helpers import lakes, mariadb_truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES, KILLS, WRITERS = (20_000, 5, 4) if FULL else (2_000, 1, 4)
SIGNALS = "shop.dbz_signal"


class Feed(NamedTuple):
    """How changes come into a lake: its configuration, what can be killed, the connector first."""

    conf: Path
    parts: list[Killed]
    all_is_there: Callable[[], None]


@pytest.fixture
def live_shop() -> Iterator[MariaDb]:
    server = mariadb.start("mariadb")
    workload_mariadb.seed(server)
    yield server
    server.stop()


def drafted(server: MariaDb, root: Path, *more: str) -> Path:
    """What `init` makes of the database; one table gets a history, one is left to change shape."""
    conf = project(root)
    ends(conf, root, "init", "--source", server.url, "--prefix", "shop", *more)
    for name, changed in {
        "orders": {"stored_as_scd_type": 2},
        "accounts": {"columns": {"id": "int"}},
    }.items():
        file = conf / "tables" / f"{name}.yml"
        own = yaml.safe_load(file.read_text()) if file.exists() else {"table": name}
        file.write_text(yaml.safe_dump(own | changed))
    return conf


def through_files(server: MariaDb, root: Path) -> Feed:
    dropped = root / "landing" / "shop"

    def engine() -> Process:
        return connector.to_files(server, dropped, root / "engine")

    def all_is_there() -> None:
        before = set(dropped.glob("*.jsonl"))
        arrives(dropped, server.mark(), before)

    return Feed(drafted(server, root), [Killed(engine)], all_is_there)


def through_kafka(server: MariaDb, root: Path) -> Feed:
    node = kafka_broker.new("mariadb-kafka")
    conf = drafted(server, root, "--kafka", node.servers)
    process = Killed(node.start)
    named = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop'"
    for (name,) in server.rows(named):
        node.create(f"shop.shop.{name}")
    connect = connector.worker(node, root / "connect", server)
    capture = Killed(connect.start)
    connect.capture(capture.process)

    def all_is_there() -> None:
        mark = server.mark()
        wait_for(lambda: node.holds(f"shop.{SIGNALS}", mark), CATCH_UP_SECONDS, "the last record")

    return Feed(conf, [capture, process], all_is_there)


def check(spark: "SparkSession", server: MariaDb, conf: Path, root: Path) -> None:
    """Gold equals the database, and nothing was refused."""
    for table in load_chosen(Chosen(conf=conf, root=str(root)), [])[1]:
        name = table.table
        types = mariadb_truth.types_of(server.rows, name)
        want = mariadb_truth.source_rows(server.rows, name, types)
        got = mariadb_truth.gold_rows(lakes.rows(Lake(spark, Target(root=str(root))), name), types)
        assert mariadb_truth.in_order(got) == mariadb_truth.in_order(want), name
        assert not (root / "lake" / "silver" / f"{name}_dead_letters").exists(), name


@pytest.mark.slow
@pytest.mark.parametrize("feed", [through_files, pytest.param(through_kafka, marks=needs_kafka)])
def test_the_lake_ends_as_the_database_is_whatever_is_killed(
    feed: Callable[[MariaDb, Path], Feed],
    live_shop: MariaDb,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    conf, parts, all_is_there = feed(live_shop, tmp_path)
    running = Killed(lambda: run_on(conf, tmp_path))
    writers = write(live_shop, workload_mariadb.STEPS, CHANGES // 2, WRITERS, pause=0.01)
    workload_mariadb.change_shape(live_shop)
    kill_at_random([*parts, running], KILLS, writers)
    writers.join()
    first = snapshots(parts[0].process)
    writers = write(live_shop, workload_mariadb.STEPS, CHANGES // 2, WRITERS, pause=0.01)
    source = ["--source", live_shop.url]
    anew = ("orders", "products")
    for table in anew:
        ends(conf, tmp_path, "rebootstrap", table, *source, "--signals", SIGNALS)
    writers.join()
    wait_for(lambda: snapshots(parts[0].process) == first + len(anew), CATCH_UP_SECONDS, "it")
    all_is_there()
    parts[0].process.stop()
    assert running.process.stop(CATCH_UP_SECONDS, SIGINT) in (0, 1), running.process.said()[-3000:]
    ends(conf, tmp_path, "run")
    check(request.getfixturevalue("spark"), live_shop, conf, tmp_path)
    verified(conf, tmp_path, live_shop.url, "kitchen_sink")


def test_the_connector_that_init_writes_is_that_of_the_server(
    live_shop: MariaDb, tmp_path: Path
) -> None:
    conf = drafted(live_shop, tmp_path)
    config = json.loads((conf / "connector.json").read_text())["config"]
    given = live_shop.connector
    own = ("connector.class", "database.hostname", "database.user", "bigint.unsigned.handling.mode")
    assert {key: config[key] for key in own} == {key: given[key] for key in own}
    written = {file.stem: yaml.safe_load(file.read_text()) for file in conf.glob("tables/*.yml")}
    assert written["shop"]["tables"] == ["shop.shop.*"]
    assert written["clicks"]["keys"] == []
    assert written["customers"]["comment"] == "People: who buy"
    assert "items" not in written
