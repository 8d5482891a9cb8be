"""From a database to gold by two commands: `init --capture`, and `run --continuous --capture`."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gold.capture_status import read_capture
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.e2e import mariadb, parts, postgres
from tests.e2e.live import ends, lakehouse, project
from tests.e2e.parts import Process, wait_for
from tests.e2e.postgres import Postgres
from tests.e2e.test_capture import needs_mariadb, needs_postgres, run_here
from tests.helpers import lakes

ITEMS = (
    "CREATE TABLE item (id int PRIMARY KEY, name varchar(20), n smallint DEFAULT 7)",
    "INSERT INTO item VALUES (1, 'one', 1), (2, 'two', NULL)",
)
"""A null stays one where its column has a default."""
GOLD = "SELECT id, name, n FROM gold.item ORDER BY id"


@pytest.fixture
def shop() -> Iterator[Postgres]:
    """A database with one table."""
    server = postgres.start("to-gold", content=None)
    server.execute(*ITEMS)
    yield server
    server.stop()


def drafted(url: str, root: Path) -> Path:
    """What `init --capture` makes of the table."""
    conf = project(root)
    ends(conf, root, "init", "item", "--source", url, "--capture")
    return conf


def gold(conf: Path, root: Path) -> list[tuple[Any, ...]]:
    """The rows of gold."""
    log = lakehouse(conf, root, "sql", GOLD, "--format", "json", log="sql.log")
    assert log.popen.wait(120) == 0, log.said()
    lines = [line for line in log.said().splitlines() if line.startswith("{")]
    return [tuple(json.loads(line).values()) for line in lines]


def child_of(process: Process) -> int:
    """The process that a run has started for its capture."""
    for status in Path("/proc").glob("[0-9]*/status"):
        if f"PPid:\t{process.popen.pid}\n" in status.read_text():
            command = (status.parent / "cmdline").read_bytes().split(b"\0")
            if b"capture" in command:
                return int(status.parent.name)
    raise AssertionError("no capture beside the run")


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.slow
@needs_postgres
def test_one_command_captures_and_runs_and_ends_both(shop: Postgres, tmp_path: Path) -> None:
    conf = drafted(shop.url, tmp_path)
    both = lakehouse(
        conf, tmp_path, "run", "--continuous", "--interval", "1s", "--capture", ready="2 inserted"
    )
    os.kill(child_of(both), signal.SIGKILL)
    wait_for(lambda: "capture has ended with -9" in both.said(), 60, "that capture is dead")
    shop.execute(
        "DELETE FROM item WHERE id = 1",
        "ALTER TABLE item ALTER COLUMN id TYPE bigint, ALTER COLUMN n TYPE bigint",
        "INSERT INTO item VALUES (5000000000, 'wide', 6000000000), (3, 'three', NULL)",
    )
    wait_for(lambda: "4 records" in both.said(), 180, "the changes meanwhile")
    child, began = child_of(both), time.monotonic()
    assert both.stop(120, signal.SIGINT) == 0, both.said()[-3000:]
    assert time.monotonic() - began < 60
    assert not is_there(child)
    assert shop.rows("SELECT active FROM pg_replication_slots") == [(False,)]
    assert gold(conf, tmp_path) == [
        (2, "two", None),
        (3, "three", None),
        (5000000000, "wide", 6000000000),
    ]


@needs_postgres
@pytest.mark.slow
def test_values_that_debezium_cannot_convert_are_said_and_kept(
    shop: Postgres, tmp_path: Path
) -> None:
    conf = drafted(shop.url, tmp_path)

    def captured(*more: str) -> tuple[str, dict[str, Any]]:
        said = " ".join(ends(conf, tmp_path, "capture", "--once", *more).said().split())
        status = read_capture(Target(root=str(tmp_path)))
        assert status is not None and status.kept_bytes is not None
        return said, msgspec.structs.asdict(status)

    said, status = captured()
    assert "could not convert" not in said
    assert (status["state"], status["unconverted"]) == ("complete", 0)
    shop.execute("UPDATE item SET n = 5", "ALTER TABLE item ALTER COLUMN n TYPE numeric")
    said, status = captured()
    assert "last of column n:" in said
    assert (status["unconverted"], status["column"]) == (2, "n")
    assert captured()[1]["unconverted"] == 2
    assert captured("--snapshot")[1]["unconverted"] == 0
    shop.execute("ALTER TABLE item ADD tags text[], ADD counts int[]")
    shop.execute("UPDATE item SET tags = '{{a,b},{c,d}}' WHERE id = 1")
    said, status = captured()
    assert "last of column shop.public.item.tags:" in said
    shop.execute("UPDATE item SET counts = '{{1,2}}', tags = '{[x}' WHERE id = 1")
    said, status = captured()
    assert "last of column counts:" in said
    assert status["column"] == "counts"


@needs_postgres
@pytest.mark.slow
def test_a_value_that_ends_debeziums_engine_is_named_and_its_table_can_be_left_out(
    shop: Postgres, tmp_path: Path
) -> None:
    shop.execute("CREATE TABLE odd (k numeric PRIMARY KEY)", "INSERT INTO odd VALUES ('NaN')")
    conf = project(tmp_path)
    ends(conf, tmp_path, "init", "--source", shop.url, "--capture")
    said = ends(conf, tmp_path, "capture", "--once", codes=(1,)).said()
    assert "in column k" in " ".join(said.split("error:")[1].split())
    settings = conf / "capture.yml"
    settings.write_text(f"{settings.read_text()}except: [public.odd]\n")
    said = ends(conf, tmp_path, "capture", "--once").said()
    assert "public.odd is gone from the database, or is left out now" in " ".join(said.split())


@needs_postgres
@pytest.mark.slow
def test_columns_of_types_that_debezium_does_not_know_come_as_bytes(
    shop: Postgres, tmp_path: Path
) -> None:
    shop.execute(
        "CREATE TYPE place AS (street text, no int)",
        "ALTER TABLE item ADD home place, ADD lsn pg_lsn, ADD costs money[]",
        "UPDATE item SET home = ('Main', 7), lsn = '0/16', costs = '{1.50}' WHERE id = 1",
    )
    conf = drafted(shop.url, tmp_path)
    ends(conf, tmp_path, "capture", "--once")
    shop.execute("UPDATE item SET home = ('Side', 8), lsn = '0/17' WHERE id = 2")
    ends(conf, tmp_path, "capture", "--once")
    ends(conf, tmp_path, "run")
    kept = "CAST(unbase64(home) AS STRING) AS home, CAST(unbase64(lsn) AS STRING) AS lsn"
    query = f"SELECT id, {kept} FROM gold.item ORDER BY id"
    said = lakehouse(conf, tmp_path, "sql", query, "--format", "json", log="sql.log")
    assert said.popen.wait(120) == 0, said.said()
    rows = [json.loads(line) for line in said.said().splitlines() if line.startswith("{")]
    assert [(row["home"], row["lsn"]) for row in rows] == [
        ("(Main,7)", "0/16"),
        ("(Side,8)", "0/17"),
    ]


@pytest.mark.slow
@needs_postgres
def test_a_capture_whose_run_was_killed_ends_too(shop: Postgres, tmp_path: Path) -> None:
    conf = drafted(shop.url, tmp_path)
    both = lakehouse(conf, tmp_path, "run", "--continuous", "--capture", ready="capturing")
    child = child_of(both)
    both.kill()
    wait_for(lambda: not is_there(child), 30, "the end of the capture")


@needs_postgres
@pytest.mark.slow
def test_the_live_demo_ends_with_gold_that_equals_its_database(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakehouse", "demo", "--live", "--root", tmp_path / "live"]
    demo = parts.start(command, tmp_path / "demo.log", env={"PYTHONPATH": str(parts.ROOT)})
    assert demo.popen.wait(300) == 0, demo.said()[-3000:]
    (wide,) = re.findall(r"5000000000 .*", demo.said())[-1:]
    assert wide.count("5000000000") == 2  # of the database, and of gold beside it
    assert "3 rows in gold, 3 in public.orders: 0 real differences" in demo.said()


@needs_mariadb
def test_mariadb_comes_to_gold(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server = mariadb.start("to-gold-mariadb")
    request.addfinalizer(server.stop)
    server.execute(*ITEMS)
    conf = drafted(server.url, tmp_path)
    ends(conf, tmp_path, "capture", "--once")
    server.execute(
        "UPDATE item SET name = 'zwei' WHERE id = 2",
        "DELETE FROM item WHERE id = 1",
        "INSERT INTO item VALUES (3, 'drei', NULL)",
    )
    ends(conf, tmp_path, "capture", "--once")
    lake = Lake(request.getfixturevalue("spark"), Target(root=str(tmp_path)))
    run_here(conf, tmp_path)
    assert sorted((r["id"], r["name"], r["n"]) for r in lakes.rows(lake, "item")) == [
        (2, "zwei", None),
        (3, "drei", None),
    ]
