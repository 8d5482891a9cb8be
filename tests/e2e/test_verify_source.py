"""`verify --source` against a real PostgreSQL that holds what the captured shop held at its end."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from gold.source_check.plan import BUCKETS
from gold.source_check.postgres import PARTS, position_text
from gold.source_check.rows import bucket_of, digest_texts
from gold.source_check.verdict import SourceDatabase, Verdict, compare_with_source
from gold.source_check.verified import read_verified, utc_now
from gold.status.status_file import update_known
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from tests.conftest import target_at
from tests.e2e.parts import ROOT
from tests.helpers import captures, lakes
from tests.helpers.captures import lines
from tests.helpers.records import SHOP

pytestmark = pytest.mark.live

NAMED = ("orders", "products", "kitchen_sink", "clicks")
TRUTH = SHOP / "truth" / "small"
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
SETTINGS = "listen_addresses = '127.0.0.1'\nfsync = off\ntimezone = 'UTC'\n"


def tables() -> list[Table]:
    return [t for t in captures.shop() if t.table in NAMED]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose transactions and log come after the captured ones."""
    if not PROGRAMS:
        pytest.skip("no PostgreSQL here: apt-get install -y --no-install-recommends postgresql")
    folder = Path("/tmp") / f"verify-{os.getpid()}"
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    _run(folder, "initdb", "-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-A",
         "trust", "--no-sync")  # fmt: skip
    with (data / "postgresql.conf").open("a") as settings:
        settings.write(f"{SETTINGS}port = {port}\nunix_socket_directories = '{folder}'\n")
    _run(folder, "pg_resetwal", "-x", "20000", "-l", "000000010000000000000020", data)
    _run(folder, "pg_ctl", "-D", data, "-l", folder / "server.log", "-w", "start")
    try:
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        _load(url)
        yield url
    finally:
        _run(folder, "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)


def _run(folder: Path, program: str, *arguments: object) -> None:
    """One of PostgreSQL's programs, which refuse to run as root."""
    command = [f"{PROGRAMS[-1]}/{program}", *map(str, arguments)]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
    with (folder.parent / f"{folder.name}.log").open("ab") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=True)


def _load(url: str) -> None:
    shapes = json.loads((TRUTH / "schema.json").read_text(encoding="utf-8"))["tables"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop")
        connection.execute("CREATE TYPE shop.tier AS ENUM ('bronze','silver','gold','platinum')")
        connection.execute(
            "CREATE TYPE shop.order_status AS ENUM ('new','paid','shipped','cancelled')"
        )
        for name in NAMED:
            shape = shapes[name]
            columns = [
                sql.SQL("{} {}").format(sql.Identifier(c["name"]), sql.SQL(c["type"]))
                for c in shape["columns"]
            ]
            table = sql.Identifier("shop", name)
            listed = sql.SQL(", ").join(columns)
            connection.execute(sql.SQL("CREATE TABLE {} ({})").format(table, listed))
            insert = sql.SQL("INSERT INTO {} SELECT * FROM jsonb_populate_record(null::{}, %s)")
            for line in (TRUTH / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
                connection.execute(insert.format(table, table), (line,))


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The lake that the captured events give."""
    target = target_at(tmp_path_factory.mktemp("shop"))
    lakes.land(target, "shop", "one.jsonl", lines("small_with_schemas"))
    lakes.run(Lake(spark, target), tables())
    return target


def judge(lake: Lake, name: str, url: str, at_rest: bool = False) -> Verdict:
    (table,) = [t for t in tables() if t.table == name]
    return compare_with_source(lake, table, SourceDatabase(url, at_rest=at_rest), pause=0)


@pytest.mark.parametrize("name", NAMED)
def test_a_table_that_came_through_equals_its_source(
    spark: SparkSession, shop: Target, source: str, name: str
) -> None:
    found = judge(Lake(spark, shop), name, source, at_rest=True)
    assert (found.real, found.left_out) == ([], ())
    assert found.gold_rows == found.source_rows > 0


class Told(list[str]):
    """What a comparison told of its parts; Ctrl-C as it begins the part `stop`."""

    def __init__(self, stop: int | None = None) -> None:
        super().__init__()
        self.stop = stop

    def __call__(self, text: str) -> None:
        if len(self) == self.stop:
            raise KeyboardInterrupt
        self.append(text)


def test_a_comparison_that_was_broken_off_goes_on_after_the_parts_that_were_equal(
    spark: SparkSession, shop: Target, source: str
) -> None:
    (products,) = [t for t in tables() if t.table == "products"]
    given, rest, whole = SourceDatabase(source, at_rest=True), Told(), Told()
    with psycopg.connect(source, autocommit=True) as connection:
        skus = [sku for (sku,) in connection.execute("SELECT sku FROM shop.products")]
        sku = min(skus, key=part_of)
        broken, before = Told(part_of(sku) + 1), position(connection)
        with pytest.raises(KeyboardInterrupt):
            compare_with_source(Lake(spark, shop), products, given, 0, broken)
        after = position(connection)
        unfinished = read_verified(shop, "products").unfinished
        assert unfinished is not None and before <= (unfinished.place or 0) <= after
        change = "UPDATE shop.products SET name = name || '!' WHERE sku = %s"
        connection.execute(change, (sku,))
        found = compare_with_source(Lake(spark, shop), products, given, 0, rest)
        assert (found.real, found.resumed) == ([], len(broken))
        assert [*broken, *rest] == [f"part {n + 1} of {PARTS}" for n in range(PARTS)]
        assert found.gold_rows == found.source_rows == len(skus)
        kept = read_verified(shop, "products")
        assert (kept.through, kept.unfinished) == (position_text(unfinished.place or 0), None)
        anew = compare_with_source(Lake(spark, shop), products, given, 0, whole)
        assert [(d.key["sku"], d.what) for d in anew.real] == [(sku, "different")]
        assert (anew.through, anew.resumed, len(whole)) == (None, 0, PARTS)
        assert read_verified(shop, "products") == kept
        connection.execute(
            "UPDATE shop.products SET name = rtrim(name, '!') WHERE sku = %s", (sku,)
        )


def part_of(sku: str) -> int:
    """The part of the keys that a product is compared in."""
    return bucket_of(digest_texts([sku])) * PARTS // BUCKETS


def position(connection: psycopg.Connection[tuple[int]]) -> int:
    """How far the write-ahead log has come."""
    query = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
    return connection.execute(query).fetchall()[0][0]


def test_the_command_keeps_how_far_each_table_is_equal_and_status_shows_it(
    shop: Target, source: str
) -> None:
    named = [f"--conf={ROOT / 'conf'}", f"--root={shop.root}", "--table=orders", "--table=products"]
    begun = utc_now()
    lakehouse("verify", f"--source={source}", "--at-rest", *named)
    update_known(shop, {})
    assert not Path(shop.checkpoints, "_verified", "_sweep.json").exists()
    shown = [json.loads(line) for line in lakehouse("status", "--format=json", *named).splitlines()]
    assert [record["table"] for record in shown] == ["orders", "products"]
    for record in shown:
        kept = read_verified(shop, record["table"])
        assert (record["verified_through"], record["verified_at"]) == (kept.through, kept.at)
        assert kept.source == f"shop.{record['table']}" and str(kept.at) > begun
        assert re.fullmatch(r"[0-9A-F]+/[0-9A-F]+", str(kept.through))


def lakehouse(*arguments: str) -> str:
    """What the command writes to stdout."""
    command = [sys.executable, "-m", "cdc_lakehouse", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_what_the_source_did_since_is_in_flight_and_what_gold_lost_is_real(
    spark: SparkSession, shop: Target, source: str
) -> None:
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("UPDATE shop.orders SET note = 'changed' WHERE id = 3")
        connection.execute("DELETE FROM shop.orders WHERE id = 4")
    found = judge(Lake(spark, shop), "orders", source)
    told = sorted((d.key["id"], d.what) for d in found.in_flight)
    assert told == [("3", "different"), ("4", "missing at the source")]
    assert found.real == []
    assert found.through is not None and found.through == read_verified(shop, "orders").through
    applied = int(found.through.removeprefix("0/"), 16)
    assert 0 < applied < 0x20 << 24  # the newest captured change; the server's log came after
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("UPDATE shop.orders SET note = 'changed' WHERE id = 5")
    moved, again = (judge(Lake(spark, shop), "orders", source) for _ in range(2))
    assert (moved.real, len(moved.in_flight)) == ([], 3)  # the source went on
    assert (again.in_flight, again.through) == ([], None)  # at rest, and still not here
    assert sorted(d.key["id"] or "" for d in again.real) == ["3", "4", "5"]
    history = names.table_name(shop, "silver", "orders_history")
    spark.sql(f"DELETE FROM {history} WHERE id = 1")
    lost = judge(Lake(spark, shop), "orders", source, at_rest=True)
    assert ("1", "missing in gold") in [(d.key["id"], d.what) for d in lost.real]
