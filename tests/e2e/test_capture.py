"""`lakehouse capture` with real databases: what is in gold equals the database, whatever is killed.

Nothing of Kafka and no Java program of the tests is needed: the jars come as a user gets them.
"""

import gzip
import json
import os
import random
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from cdc_lakehouse.capture.database import DatabaseNotReady, open_database
from cdc_lakehouse.capture.files import CaptureRefused, Position
from cdc_lakehouse.capture.settings import CaptureSettings
from cdc_lakehouse.cli.options import Chosen, load_chosen
from cdc_lakehouse.cli.work.run import Asked, run_layers
from lakehouse.config.target import LAYERS, Target
from lakehouse.storage.lake import Lake
from tests.e2e import compared, mariadb, parts, postgres, workload, workload_mariadb
from tests.e2e.live import Killed, ends, lakehouse, project, run_on
from tests.e2e.mariadb import MariaDb
from tests.e2e.parts import Process, wait_for
from tests.e2e.postgres import Postgres
from tests.e2e.test_mariadb import check as equals_mariadb
from tests.e2e.writers import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Load(NamedTuple):
    """How much is written and killed: capture within its first snapshot, and both afterwards."""

    rows: int
    changes: int
    in_snapshot: int
    kills: int


WRITERS = 4
QUICK = Load(5_000, 600, 1, 1)
LARGE, LARGEST = Load(20_000, 10_000, 2, 3), Load(100_000, 100_000, 2, 3)
JARS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "cdc-lakehouse/debezium")
needs_postgres = pytest.mark.skipif(
    parts.postgres_programs() is None,
    reason=f"PostgreSQL IS NOT INSTALLED, so capture was NOT tried: run {parts.INSTALL}",
)
needs_mariadb = pytest.mark.skipif(
    not parts.MARIADB.is_file(),
    reason=f"MariaDB IS NOT INSTALLED, so capture was NOT tried: run {parts.INSTALL}",
)


@pytest.fixture
def shop() -> Iterator[Postgres]:
    """A shop that nobody has published yet."""
    server = postgres.start("capture")
    server.execute("DROP PUBLICATION shop")
    workload.seed(server)
    yield server
    server.stop()


def prepared(url: str, root: Path) -> Path:
    """What `init --capture` makes of the database; one table is left to change its types."""
    conf = project(root)
    ends(conf, root, "init", "--source", url, "--capture")
    if (conf / "tables" / "clicks.yml").exists():  # a table without a key
        ends(conf, root, "validate", "--accept", "clicks")
    file = conf / "tables" / "accounts.yml"
    file.write_text(yaml.safe_dump({"table": "accounts", "columns": {"id": "int"}}))
    return conf


def capture_on(conf: Path, root: Path, ready: str = "capturing") -> Process:
    """A capture that goes on, past its start, with a log of its own."""
    log = f"capture-{time.monotonic_ns()}.log"
    return lakehouse(conf, root, "capture", ready=ready, log=log)


def captured(root: Path) -> list[dict[str, Any]]:
    """All records that were written, in order."""
    files = sorted((root / "landing").glob("*/*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.open(file, "rt")]


def rows_of(root: Path, table: str) -> list[dict[str, Any]]:
    """What a reader has who applies the records of a table with the key `id` in their order."""
    rows: dict[int, dict[str, Any]] = {}
    for record in captured(root):
        if not record["topic"].endswith(f".{table}") or record["value"] is None:
            continue
        value = record["value"]["payload"]
        if value["op"] == "d":
            rows.pop(value["before"]["id"], None)
        elif value["op"] == "t":
            rows.clear()
        else:
            rows[value["after"]["id"]] = value["after"]
    return [rows[key] for key in sorted(rows)]


def gold_equals(spark: "SparkSession", server: Postgres, conf: Path, root: Path) -> None:
    """Gold equals the database row by row, and nothing was refused."""
    opened = Lake(spark, Target(root=str(root)))
    names = [table.table for table in load_chosen(Chosen(conf=conf, root=str(root)), [])[1]]
    assert len(names) >= 10
    for name in names:
        want = compared.source_rows(server, name)
        assert compared.gold_rows(opened, server, name) == want, name
        assert not (root / "lake" / "silver" / f"{name}_dead_letters").exists(), name


def kill_in_snapshot(capture: Killed, root: Path, files: Sequence[int]) -> None:
    """Kill a capture within its first snapshot, each time after so many more files."""
    landing, state = root / "landing" / "shop", root / "capture" / "shop" / "state.json"
    for more in files:
        wanted = len(list(landing.glob("*.gz"))) + more
        wait_for(partial(has_files, landing, wanted), 120, "rows of the snapshot")
        capture.process.kill()
        assert Position.model_validate_json(state.read_bytes()).is_in_snapshot
        capture.again()


def has_files(landing: Path, wanted: int) -> bool:
    return len(list(landing.glob("*.gz"))) >= wanted


@needs_postgres
@pytest.mark.parametrize(
    ("load", "seed"),
    [
        pytest.param(QUICK, 0, id="quick"),
        pytest.param(LARGEST, 0, id="0", marks=pytest.mark.slow),
        *(pytest.param(LARGE, n, id=f"{n}", marks=pytest.mark.slow) for n in range(1, 20)),
    ],
)
def test_gold_equals_the_database_whatever_is_killed(
    shop: Postgres, tmp_path: Path, load: Load, seed: int, request: pytest.FixtureRequest
) -> None:
    conf = live_through_kills(shop, workload, tmp_path, load, seed)
    spark = request.getfixturevalue("spark")
    run_here(conf, tmp_path)
    gold_equals(spark, shop, conf, tmp_path)


@needs_mariadb
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_gold_equals_mariadb_whatever_is_killed(
    tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    server = mariadb.start("capture-mariadb")
    request.addfinalizer(server.stop)
    workload_mariadb.seed(server)
    conf = live_through_kills(server, workload_mariadb, tmp_path, LARGE, seed)
    spark = request.getfixturevalue("spark")
    run_here(conf, tmp_path)
    equals_mariadb(spark, server, conf, tmp_path)


def live_through_kills(
    server: Postgres | MariaDb, work: ModuleType, root: Path, load: Load, seed: int
) -> Path:
    """Write while capture, and run, are killed; then let capture catch up; the configuration."""
    chance = random.Random(seed)
    server.execute(
        "INSERT INTO shop.customers(email, name)"
        f" SELECT concat(g, '@y'), concat('n', g) FROM {work.SERIES.format(load.rows)}"
    )
    conf = prepared(server.url, root)
    (conf / "capture.yml").write_text((conf / "capture.yml").read_text() + "file_records: 256\n")
    capture = Killed(lambda: capture_on(conf, root))
    writers = write(server, work.STEPS, load.changes, WRITERS, pause=0.03)
    most = load.rows // 1024  # a quarter of the snapshot's files
    kill_in_snapshot(capture, root, [chance.randint(1, most) for _ in range(load.in_snapshot)])
    run = Killed(lambda: run_on(conf, root))
    for _ in range(load.kills):
        wait_for(lambda: "streaming" in capture.process.said(), 120, "streaming")
        for part in chance.sample([capture, run], 2):
            time.sleep(chance.uniform(0, 8))
            assert part.process.runs(), part.process.said()[-3000:]
            part.again()
    work.change_shape(server)
    writers.join()
    server.execute("TRUNCATE TABLE shop.staging", "INSERT INTO shop.staging VALUES (1, 'after')")
    run.process.kill()
    capture.process.kill()
    history = root / "capture" / "shop" / "schema-history"
    if history.exists():
        history.write_bytes(history.read_bytes()[:-20])
    ends(conf, root, "capture", "--once")
    return conf


def run_here(conf: Path, root: Path) -> None:
    """`lakehouse run` in this process, whose Spark is warm."""
    run_layers(Chosen(conf=conf, root=str(root)), Asked(LAYERS))


@needs_postgres
@pytest.mark.slow
def test_a_torn_file_of_offsets_a_new_table_and_a_restarted_server(
    shop: Postgres, tmp_path: Path
) -> None:
    conf = prepared(shop.url, tmp_path)
    ends(conf, tmp_path, "capture", "--once")
    (tmp_path / "capture" / "shop" / "offsets").write_bytes(b"")
    shop.execute("INSERT INTO shop.staging VALUES (101, 'while nobody captured')")
    shop.execute("CREATE TABLE shop.late (id int PRIMARY KEY, n int)")
    shop.execute("INSERT INTO shop.late SELECT g, g FROM generate_series(1, 5000) g")
    shop.execute("CREATE TABLE shop.bare (n int)")
    once = ends(conf, tmp_path, "capture", "--once")
    assert "left out: shop.bare has neither a primary key" in " ".join(once.said().split())
    assert len(rows_of(tmp_path, "late")) == 5000
    capture = capture_on(conf, tmp_path, "streaming")
    shop.execute("CREATE TABLE shop.message (id int PRIMARY KEY, n text)")
    shop.execute(f"INSERT INTO shop.message VALUES (1, 'lakehouse-{'0' * 32}')")
    wait_for(lambda: rows_of(tmp_path, "message"), 90, "a table that was made meanwhile")
    shop.restart()
    shop.execute("INSERT INTO shop.late VALUES (5001, 7)", "DELETE FROM shop.late WHERE id = 1")
    wait_for(lambda: rows_of(tmp_path, "late")[-1]["id"] == 5001, 90, "a change afterwards")
    began = time.monotonic()
    assert capture.stop() == 0, capture.said()[-3000:]
    assert time.monotonic() - began < 15
    wanted = shop.rows("SELECT id, n FROM shop.late ORDER BY id")
    assert [(row["id"], row["n"]) for row in rows_of(tmp_path, "late")] == wanted
    assert rows_of(tmp_path, "staging")[-1]["payload"] == "while nobody captured"
    assert not [r for r in captured(tmp_path) if "dbz_signal" in r["topic"]]
    status = json.loads((tmp_path / "lake/_checkpoints/_capture.json").read_text())
    assert (status["state"], status["name"]) == ("stopped", "shop")


def read_slot(server: Postgres, root: Path) -> Process:
    """Another program that reads the slot."""
    programs = parts.postgres_programs()
    assert programs
    options = ["--slot=shop", "-o", "proto_version=1", "-o", "publication_names=shop", "--start"]
    at = [f"--dbname={server.url}", "--file=-"]
    reader = parts.start([programs / "pg_recvlogical", *at, *options], root / "reader.log")
    wait_for(lambda: is_read(server), 30, "the slot's reader")
    return reader


def is_read(server: Postgres) -> bool:
    return server.rows("SELECT active FROM pg_replication_slots") == [(True,)]


@needs_postgres
@pytest.mark.slow
def test_what_would_lose_changes_is_refused(shop: Postgres, tmp_path: Path) -> None:
    conf = prepared(shop.url, tmp_path)
    ends(conf, tmp_path, "capture", "--once")
    first = capture_on(conf, tmp_path, "streaming")
    second = ends(conf, tmp_path, "capture", codes=(1,))
    assert "captures with" in second.said()
    first.stop()
    reader = read_slot(shop, tmp_path)
    with (conf / "capture.yml").open("a") as settings:
        settings.write(f"jars: {JARS}\n")  # as on a machine without a network
    read = " ".join(ends(conf, tmp_path, "capture", "--once", codes=(1,)).said().split())
    assert re.search("process [0-9]+ of the server reads the slot shop: pg_recvlogical", read)
    assert re.search(r"do: .* SELECT pg_terminate_backend\([0-9]+\)", read)
    reader.kill()
    wait_for(lambda: not is_read(shop), 30, "the end of the slot's reader")
    shop.execute("SELECT pg_drop_replication_slot('shop')")
    gone = ends(conf, tmp_path, "capture", "--once", codes=(1,))
    assert "the slot shop is gone" in gone.said() and "--snapshot" in gone.said()
    shop.execute("INSERT INTO shop.staging VALUES (77, 'unseen')")
    shop.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
    anew = ends(conf, tmp_path, "capture", "--once", codes=(1,))
    assert "is ahead of this capture" in anew.said()
    ends(conf, tmp_path, "capture", "--once", "--snapshot")
    assert "unseen" in [row["payload"] for row in rows_of(tmp_path, "staging")]
    shutil.copytree(tmp_path / "capture", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "capture")
    lost = ends(conf, tmp_path, "capture", "--once", codes=(1,))
    assert "but not the state in" in lost.said()
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "capture", dirs_exist_ok=True)
    ends(conf, tmp_path, "capture", "--drop", "--yes")
    assert shop.rows("SELECT slot_name FROM pg_replication_slots") == []
    assert shop.rows("SELECT pubname FROM pg_publication") == []


@needs_postgres
def test_every_lack_of_the_database_is_said_with_what_mends_it(
    shop: Postgres, tmp_path: Path
) -> None:
    shop.execute(
        "CREATE ROLE reader LOGIN",
        "CREATE TABLE shop.bare (n int)",
        "CREATE UNLOGGED TABLE shop.quick (id int PRIMARY KEY)",
        "DROP TABLE shop.dbz_signal",
    )
    conf = prepared(shop.url, tmp_path)
    file = conf / "capture.yml"
    settings = yaml.safe_load(file.read_text()) | {"tables": ["shop.*", "shop.ordres"]}
    settings["source"] = shop.url.replace("postgres@", "reader@")
    file.write_text(yaml.safe_dump(settings))
    said = ends(conf, tmp_path, "capture", "--check", codes=(2,)).said()
    for expected in (
        "ALTER ROLE reader REPLICATION;",
        "GRANT SELECT ON shop.orders TO reader;",
        'GRANT SELECT ON shop."Mixed Case" TO reader;',
        "ALTER TABLE shop.bare REPLICA IDENTITY FULL;",
        "ALTER TABLE shop.quick SET LOGGED;",
        "no table matches shop.ordres",
        "did you mean shop.orders?",
        "CREATE PUBLICATION shop FOR TABLE",
        "CREATE TABLE shop.dbz_signal (",
    ):
        assert expected in said, expected
    with shop.connect() as connection:
        for lack in said.splitlines():
            statement = lack.partition("do:       ")[2]
            if statement.startswith(("ALTER ROLE", "GRANT", "ALTER TABLE", "CREATE TABLE")):
                connection.execute(statement.partition("; or ")[0].partition(" (on")[0].encode())
    settings["tables"] = ["shop.*"]
    file.write_text(yaml.safe_dump(settings))
    said = ends(conf, tmp_path, "capture", "--check", codes=(2,)).said()
    shop.execute(said.rpartition("as a superuser: ")[2].splitlines()[0])
    assert "the database is ready" in ends(conf, tmp_path, "capture", "--check").said()
    ends(conf, tmp_path, "capture", "--once")
    assert len(rows_of(tmp_path, "staging")) == 10


@needs_postgres
def test_lacks_of_a_publication_of_a_slot_and_of_rows_are_said(shop: Postgres) -> None:
    shop.execute(
        "CREATE ROLE reader LOGIN REPLICATION",
        "GRANT USAGE ON SCHEMA shop TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO reader",
        "GRANT SELECT, INSERT ON shop.dbz_signal TO reader",
        "ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY",
        "CREATE TABLE shop.logs (day int PRIMARY KEY) PARTITION BY RANGE (day)",
        "CREATE TABLE shop.logs_1 PARTITION OF shop.logs FOR VALUES FROM (0) TO (9)",
        "ALTER TABLE shop.logs_1 REPLICA IDENTITY NOTHING",
        "CREATE PUBLICATION shop FOR TABLE shop.orders WITH (publish = 'insert')",
        "SELECT pg_create_logical_replication_slot('shop', 'test_decoding')",
    )
    given = {"name": "shop", "tables": ["shop.*"], "signals": "shop.dbz_signal"}
    reader = given | {"source": shop.url.replace("postgres@", "reader@")}
    for name, settings, expected in (
        ("shop", reader, "row level security hides rows of shop.orders from reader"),
        ("shop", reader, "GRANT INSERT, DELETE, SELECT ON shop.dbz_signal TO reader;"),
        ("shop", reader, "ALTER TABLE shop.logs_1 REPLICA IDENTITY FULL;"),
        ("shop", reader, "the publication shop leaves out some operations"),
        ("shop", reader, "the publication shop shows partitions as tables"),
        ("shop", reader, "ALTER PUBLICATION shop ADD TABLE shop.customers;"),
        ("shop", reader, "the slot shop is of test_decoding in the database shop"),
        ("full", given | {"source": shop.url}, "full is a word of SQL"),
    ):
        chosen = CaptureSettings.model_validate(settings | {"name": name})
        said = str(DatabaseNotReady(open_database(chosen).find_lacks()))
        assert expected in said, said


@needs_mariadb
def test_lacks_of_mariadb_and_a_log_that_is_gone_are_said(request: pytest.FixtureRequest) -> None:
    server = mariadb.start("lacks-mariadb")
    request.addfinalizer(server.stop)
    server.execute("SET GLOBAL binlog_row_image = 'MINIMAL'", "SET GLOBAL binlog_format = 'MIXED'")
    given = {"name": "shop", "source": server.url, "signals": "shop.dbz_signal"}
    chosen = CaptureSettings.model_validate(given | {"tables": ["shop.ordres"]})
    database = open_database(chosen)
    said = str(DatabaseNotReady(database.find_lacks()))
    for expected in (
        "binlog_format is MIXED",
        "in my.cnf: binlog_row_image = FULL, then restart the server",
        "did you mean shop.orders?",
    ):
        assert expected in said, said
    gone = Position(offset={"file": "binlog.000000", "pos": 4})
    with pytest.raises(CaptureRefused, match=r"the binlog binlog\.000000 is gone"):
        database.check_position(gone)
