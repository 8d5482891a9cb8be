"""PostgreSQL → Debezium → files or Kafka → lake, while everything is killed at random."""

import functools
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

import pytest
import yaml

from lakehouse.config.loading import load_tables
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.e2e import compared, connector, kafka_broker, postgres, reader, workload
from tests.e2e.kafka_broker import Broker
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
from tests.e2e.parts import ROOT, Process, needs_kafka, wait_for
from tests.e2e.postgres import Postgres
from tests.e2e.reader import Reader, halves, steps_back
from tests.e2e.writers import write
from tests.helpers.captures import yaml_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES, KILLS, WRITERS = (100_000, 5, 4) if FULL else (1_200, 1, 4)
STATES = 5 if FULL else 2
TABLES = [
    "accounts", "clicks", "customers", "kitchen_sink", "kitchen_sink_full", "mixed_case",
    "order_items", "orders", "products", "staging",
]  # fmt: skip
# For short, topics feed fewer of them: the files feed all.
BY_TOPIC = TABLES if FULL else ["accounts", "customers", "order_items", "orders", "products"]


@pytest.fixture
def live_shop() -> Iterator[Postgres]:
    server = postgres.start("live")
    server.execute((ROOT / "tests" / "e2e" / "audit.sql").read_text())
    workload.seed(server)
    yield server
    server.stop()


@pytest.fixture
def node() -> Broker:
    return kafka_broker.new("live-kafka")


def configuration(
    root: Path,
    source: dict[str, object],
    tables: Sequence[str] = tuple(TABLES),
    group: Sequence[str] = (),
) -> Path:
    """The project's own tables, fed as the test says; those of `group` belong together."""
    made = []
    for table in tables:
        given = yaml.safe_load(yaml_file(table).read_text())
        topic = given["source"]["topic"]
        feed = {"format": "debezium", "topic": topic, "decimal_handling_mode": "string"}
        given["source"] = feed | source
        made.append(given | ({"consistency_group": "shop"} if table in group else {}))
    return project(root, made)


def all_sent(server: Postgres) -> None:
    """Wait until the connector, which streams, has acknowledged all that is written now.

    It acknowledges what it sends, so it gets a message to send that comes after all else. Of the
    records of a snapshot nothing is told, as they have no place of their own in the log
    (`all_dropped` waits for them).
    """
    (position,) = server.rows("SELECT pg_current_wal_lsn()::text")[0]
    server.rows("SELECT pg_logical_emit_message(true, 'test', 'all is sent')::text")
    behind = f"SELECT confirmed_flush_lsn >= '{position}' FROM pg_replication_slots"
    wait_for(lambda: server.rows(behind) == [(True,)], CATCH_UP_SECONDS, "the connector caught up")


def all_dropped(server: Postgres, folder: Path) -> None:
    """Wait until a message that comes after all else is in a file."""
    mark, before = uuid.uuid4().hex, set(folder.glob("*.jsonl"))
    server.rows(f"SELECT pg_logical_emit_message(true, '{mark}', 'all is dropped')::text")
    arrives(folder, mark, before)


def states_follow(server: Postgres, looks: Reader) -> None:
    """While all goes on undisturbed, what is written moves the reader from state to state."""
    for _ in range(STATES):
        more = looks.states() + 1
        write(server, workload.STEPS, 40 * WRITERS, WRITERS).join()
        newer = functools.partial(looks.shows, more)
        wait_for(newer, CATCH_UP_SECONDS, "a newer state in gold")


def check(spark: "SparkSession", server: Postgres, conf: Path, root: Path) -> None:
    """Gold equals the database, history equals the audit, and nothing was refused."""
    target = Target(root=str(root))
    for table in load_tables(conf):
        name = table.table
        want, got = (
            compared.source_rows(server, name),
            compared.gold_rows(Lake(spark, target), server, name),
        )
        assert got == want, name
        letters = root / "lake" / "silver" / f"{name}_dead_letters"
        assert not letters.exists(), name
    for name in {table.table for table in load_tables(conf)} & {"customers", "orders"}:
        history = compared.gold_history(Lake(spark, target), server, name)
        assert history == compared.source_history(server, name), name


def sqlalchemy_url(server: Postgres) -> str:
    return server.url.replace("postgresql:", "postgresql+psycopg:")


@pytest.mark.slow
def test_dropped_records_end_as_the_database_is_whatever_is_killed(
    live_shop: Postgres, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    conf = configuration(tmp_path, {"path": "shop"})
    dropped = tmp_path / "landing" / "shop"

    def engine() -> Process:
        return connector.to_files(live_shop, dropped, tmp_path / "engine")

    capture = Killed(engine)
    running = run_on(conf, tmp_path)
    writers = write(live_shop, workload.STEPS, CHANGES, WRITERS, pause=0.01)
    workload.change_shape(live_shop)
    kill_at_random([capture], KILLS, writers)
    writers.join()
    all_dropped(live_shop, dropped)
    capture.process.stop()
    assert running.stop(CATCH_UP_SECONDS, SIGINT) == 0, running.said()[-3000:]
    ends(conf, tmp_path, "run")
    check(request.getfixturevalue("spark"), live_shop, conf, tmp_path)


@needs_kafka
@pytest.mark.slow
def test_topics_end_as_files_do_as_the_database_is_whatever_is_killed(
    live_shop: Postgres, node: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sent = [*map(topic_of, TABLES), "shop.transaction"]
    read = [*map(topic_of, BY_TOPIC), "shop.transaction"]
    kafka = {"topic": ",".join(read), "bootstrap_servers": node.servers}
    conf = configuration(tmp_path, {"kafka": kafka}, BY_TOPIC, group=reader.TABLES)
    server = Killed(node.start)
    for topic in sent:
        node.create(topic)
    connect = connector.worker(node, tmp_path / "connect", live_shop)
    capture = Killed(connect.start)
    connect.capture(capture.process)
    running = Killed(lambda: run_on(conf, tmp_path))
    with Reader(request.getfixturevalue("spark"), Target(root=str(tmp_path))) as looks:
        writers = write(live_shop, workload.STEPS, CHANGES, WRITERS, pause=0.01)
        workload.change_shape(live_shop)
        kill_at_random([server, capture, running], KILLS, writers)
        writers.join()
        all_sent(live_shop)
        states_follow(live_shop, looks)
        all_sent(live_shop)
        assert running.process.stop(CATCH_UP_SECONDS, SIGINT) in (0, 1), running.process.said()[
            -3000:
        ]
        ends(conf, tmp_path, "run")
    capture.process.kill()
    server.process.stop()
    assert (looks.failed, halves(looks.seen), steps_back(looks.seen)) == ([], [], [])
    assert looks.seen
    print(f"{len(looks.seen)} looks at {looks.states()} states")
    check(request.getfixturevalue("spark"), live_shop, conf, tmp_path)
    verified(conf, tmp_path, sqlalchemy_url(live_shop), "orders")


@pytest.mark.slow
def test_a_new_snapshot_makes_up_for_records_that_were_lost(
    live_shop: Postgres, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    conf = configuration(tmp_path, {"path": "shop"}, ["staging"])
    dropped = tmp_path / "landing" / "shop"
    capture = connector.to_files(live_shop, dropped, tmp_path / "engine")
    live_shop.execute("INSERT INTO shop.staging SELECT g, 'n' FROM generate_series(100, 1400) g")
    all_dropped(live_shop, dropped)
    before = set(dropped.glob("*.jsonl"))
    live_shop.execute("DELETE FROM shop.staging WHERE id > 100")
    all_dropped(live_shop, dropped)
    later = sorted(set(dropped.glob("*.jsonl")) - before)
    [file for file in later if '"shop.shop.staging"' in file.read_text()][1].unlink()
    ends(conf, tmp_path, "run")  # what is missing may come with the next files
    live_shop.execute("INSERT INTO shop.staging VALUES (5000, 'later')")
    all_dropped(live_shop, dropped)
    failing = ends(conf, tmp_path, "run", codes=(1,))
    assert "of shop.shop.staging are gone at the source" in failing.said()
    given = ["--source", sqlalchemy_url(live_shop), "--signals", "shop.dbz_signal"]
    first = snapshots(capture)
    ends(conf, tmp_path, "rebootstrap", "staging", *given)
    wait_for(lambda: snapshots(capture) > first, CATCH_UP_SECONDS, "the snapshot")
    all_dropped(live_shop, dropped)
    capture.stop()
    ends(conf, tmp_path, "run", codes=(0, 1))
    ends(conf, tmp_path, "run")
    check(request.getfixturevalue("spark"), live_shop, conf, tmp_path)


def topic_of(table: str) -> str:
    """The topic that the connector sends a table's changes to."""
    return str(yaml.safe_load(yaml_file(table).read_text())["source"]["topic"])
