"""A lake in an object store, without a catalog: all of it over a real S3-compatible server."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakehouse.places.place import list_folder, to_place, write_whole
from lakehouse.places.settings import jars_of_stores
from lakehouse.spark.local_settings import CENTRAL
from lakehouse.storage.locks import hold_locks
from tests.e2e import postgres
from tests.e2e.one_table import TABLE, answer, command, events, succeeds
from tests.e2e.parts import ROOT, free_port
from tests.e2e.test_capture import needs_postgres
from tests.helpers.object_store import BUCKET, ENVIRONMENT, object_store, store_target
from tests.pages.dialogue import follow
from tests.pages.shell import Shell

pytestmark = [pytest.mark.live, pytest.mark.slow]
PAGE = ROOT / "docs" / "guides" / "object-storage.md"
EVENTS = 2000
ROWS = "SELECT id, n, text FROM gold.t ORDER BY ALL"
ONCE = "SELECT count(*) AS records, count(DISTINCT _offset) AS offsets FROM bronze.t"
TARGET = """
kind: {kind}
root: {root}
{more}
settings:
  spark.hadoop.fs.s3a.endpoint: {url}
  spark.hadoop.fs.s3a.access.key: env:AWS_ACCESS_KEY_ID
  spark.hadoop.fs.s3a.secret.key: env:AWS_SECRET_ACCESS_KEY
  spark.hadoop.fs.s3a.endpoint.region: us-east-1
"""


class StoreLake:
    """A lake with one table `t` in the server's bucket, and the commands that work on it."""

    def __init__(self, folder: Path, url: str, name: str, **more: str) -> None:
        root, kind = f"s3a://{BUCKET}/{name}", more.pop("kind", "local")
        self.target = store_target(url, root=root)
        (folder / "conf" / "tables").mkdir(parents=True)
        (folder / "conf" / "targets").mkdir()
        (folder / "conf" / "tables" / "t.yml").write_text(TABLE % 1)
        own = "\n".join(f"{key}: {value}" for key, value in more.items())
        text = TARGET.format(kind=kind, root=root, url=url, more=own)
        (folder / "conf" / "targets" / "local.yml").write_text(text)
        self.options = ["--conf", str(folder / "conf")]

    def drop(self, number: int, records: list[dict[str, object]]) -> None:
        """One file of changes; in a store it is there whole or not at all."""
        file = to_place(self.target, self.target.landing, "t", f"{number:04d}.jsonl")
        write_whole(file, "".join(json.dumps(record) + "\n" for record in records).encode())

    def refused(self, name: str) -> str:
        """What a command says that must fail."""
        ran = subprocess.run(
            command(name, self.options), capture_output=True, text=True, check=False
        )
        assert ran.returncode == 1, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def killed(self, seconds: float) -> None:
        """A run that is killed with its Java after so many seconds, or that was done before."""
        run = subprocess.Popen(command("run", self.options), start_new_session=True)
        try:
            run.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def rows(records: list[dict[str, Any]]) -> list[dict[str, object]]:
    """The rows that these events leave."""
    found: dict[int, dict[str, object]] = {}
    for event in records:
        row = event["value"]["after"]
        found.pop(event["key"]["id"], None)
        if row is not None:
            found[row["id"]] = row
    return [found[key] for key in sorted(found)]


def lacks_jars() -> bool:
    """Whether the jar for S3 is neither here nor to be had."""
    if any(Path.home().glob(".ivy2*/jars/org.apache.hadoop_hadoop-aws-*.jar")):
        return False
    group, module, number = jars_of_stores(store_target("http://none"))[0].split(":")
    jar = f"{CENTRAL}/{group.replace('.', '/')}/{module}/{number}/{module}-{number}.pom"
    try:
        with urllib.request.urlopen(jar, timeout=30):
            return False
    except OSError:
        return True


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if lacks_jars():
        pytest.skip("NOT TESTED: a lake in an object store; Maven has no hadoop-aws here")
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch, object_store(folder) as found:
        for name, text in (ENVIRONMENT | {"XDG_CACHE_HOME": str(folder)}).items():
            patch.setenv(name, text)
        yield found


def test_a_lake_in_an_object_store_is_loaded_asked_and_kept_by_locks(
    tmp_path: Path, url: str
) -> None:
    lake, records = StoreLake(tmp_path, url, "calm"), list(events(1, EVENTS))
    lake.drop(1, records[:1000])
    succeeds("run", lake.options)
    assert "nothing new" in succeeds("run", lake.options)
    lake.drop(2, records[1000:])
    with hold_locks(lake.target, ["silver.t"], "theirs"):
        assert "theirs" in lake.refused("run")
    succeeds("run", lake.options, "--merge")
    assert answer(lake.options, ROWS) == rows(records)
    told = succeeds("status", lake.options, "--format", "json").splitlines()
    assert [json.loads(line)["table"] for line in told] == ["t"]
    assert not (tmp_path / "s3a:").exists()
    top = {each.name for each in list_folder(to_place(lake.target, lake.target.lake))}
    assert {"bronze", "silver", "gold", "_checkpoints", "_locks", "_settled.json"} <= top


def test_a_run_that_is_killed_over_an_object_store_loses_nothing(tmp_path: Path, url: str) -> None:
    lake, records = StoreLake(tmp_path, url, "wild"), list(events(1, EVENTS))
    for number in range(4):
        lake.drop(number, records[number * 500 : (number + 1) * 500])
        lake.killed(12 + 8 * number)
    succeeds("run", lake.options)
    assert answer(lake.options, ROWS) == rows(records)
    assert answer(lake.options, ONCE) == [{"records": EVENTS, "offsets": EVENTS}]


@pytest.mark.usefixtures("url")
def test_the_page_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    shell = Shell(tmp_path, tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    try:
        follow(PAGE, shell, own={"5555": str(free_port())})
    finally:
        left = tmp_path / "store" / "moto.pid"
        with suppress(OSError, ValueError):
            os.kill(int(left.read_text()), signal.SIGKILL)


def test_two_drivers_at_once_lose_no_commit_to_the_tables_that_they_share(
    tmp_path: Path, url: str
) -> None:
    lake, records = StoreLake(tmp_path, url, "two"), list(events(1, EVENTS))
    tables = tmp_path / "conf" / "tables"
    (tables / "u.yml").write_text(
        (TABLE % 1).replace("table: t", "table: u").replace("path: t", "path: u")
    )
    lake.drop(1, records)
    write_whole(
        to_place(lake.target, lake.target.landing, "u", "1.jsonl"),
        "".join(json.dumps(record) + "\n" for record in records).encode(),
    )
    both = [
        subprocess.Popen(command("run", lake.options, "--table", table), start_new_session=True)
        for table in ("t", "u")
    ]
    assert [run.wait(600) for run in both] == [0, 0]
    told = "SELECT `table`, layer FROM silver._runs WHERE status = 'ok' ORDER BY ALL"
    assert answer(lake.options, ROWS) == rows(records)
    assert answer(lake.options, ROWS.replace("gold.t", "gold.u")) == rows(records)
    found = {(row["table"], row["layer"]) for row in answer(lake.options, told)}
    assert found >= {(table, layer) for table in ("t", "u") for layer in ("bronze", "silver")}


@needs_postgres
def test_a_database_is_captured_into_a_store_and_read_from_there(tmp_path: Path, url: str) -> None:
    server, lake = postgres.start("store", content=None), StoreLake(tmp_path, url, "captured")
    try:
        server.execute("CREATE TABLE t (id int PRIMARY KEY, n int, text varchar(9))")
        server.execute("INSERT INTO t SELECT g, g, 'first' FROM generate_series(1, 5) g")
        (tmp_path / "conf" / "tables" / "t.yml").unlink()
        succeeds("init", lake.options, "--source", server.url, "--capture")
        succeeds("capture", lake.options, "--once")
        succeeds("run", lake.options)
        server.execute("UPDATE t SET text = 'second' WHERE id < 3", "DELETE FROM t WHERE id = 5")
        succeeds("capture", lake.options, "--once")
        succeeds("run", lake.options)
        texts = {1: "second", 2: "second", 3: "first", 4: "first"}
        wanted = [{"id": key, "n": key, "text": text} for key, text in texts.items()]
        assert answer(lake.options, ROWS) == wanted
        assert "capture shop: stopped" in succeeds("status", lake.options)
        names = [file.name for file in list_folder(to_place(lake.target, lake.target.landing))]
        assert names == ["shop"]
        assert not (tmp_path / "s3a:").exists()
    finally:
        server.stop()
