"""A lake's server at the terminal: asked by commands, the shell and other clients, always fresh."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from lakehouse.config.loading import load_target
from lakehouse.config.target import Target
from lakehouse.spark.server import Server, read_server, write_server
from tests.conftest import REMOTE
from tests.pages.dialogue import follow
from tests.pages.shell import Shell

ROOT = Path(__file__).parents[3]
TABLE = """
table: people
source: {format: rows, path: people}
keys: [id]
columns: {id: int, name: string}
sequence_by: at
apply_as_deletes: "op = 'd'"
except_column_list: [op, at]
"""
SETTLED = 60.0
CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print([row.name for row in spark.sql("SELECT name FROM gold.people ORDER BY id").collect()])
print(spark.catalog.listColumns("gold.people")[0].name)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REMOTE is not None, reason="it starts a server of its own"),
]


class Project:
    """A folder with one table, and commands that are typed in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "conf" / "tables").mkdir(parents=True)
        (root / "conf" / "targets").mkdir()
        (root / "landing" / "people").mkdir(parents=True)
        (root / "conf" / "tables" / "people.yml").write_text(TABLE)
        (root / "conf" / "targets" / "local.yml").write_text("root: .\nmaster: local[2]\n")

    @property
    def target(self) -> Target:
        return load_target(self.root / "conf", "local", str(self.root))

    def drop(self, at: int, **row: object) -> None:
        line = json.dumps({"op": "c", "at": at, **row})
        (self.root / "landing" / "people" / f"{at}.jsonl").write_text(f"{line}\n")

    def type(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-m", "lakehouse", *words], cwd=self.root, env=environment,
            input=given, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def told(self, *words: str, given: str = "") -> str:
        done = self.type(*words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, url: str) -> subprocess.CompletedProcess[str]:
        """Another program that knows the URL only."""
        left_out = {"SPARK_CONNECT_AUTHENTICATE_TOKEN", "SPARK_REMOTE"}
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        return subprocess.run(
            [sys.executable, "-c", CLIENT, url], env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("warm"))
    project.drop(1, id=1, name="a")
    project.told("run")
    yield project
    project.type("serve", "--stop")


def names(rows: str) -> Sequence[str]:
    return [json.loads(line)["name"] for line in rows.splitlines()]


ASK = (
    "sql",
    "--format",
    "json",
    "SELECT max(name) AS name FROM gold.people GROUP BY id ORDER BY id",
)
"""A question that only Spark answers."""


def test_a_server_answers_what_a_cold_session_answers(project: Project) -> None:
    cold = project.told(*ASK)
    url = project.told("serve").strip()
    assert url.startswith("sc://localhost:")
    assert "failed" not in (project.root / "lake" / "_logs" / "serve.log").read_text()  # warmed up
    assert project.told("serve").strip() == url
    warm = project.type(*ASK)
    assert (warm.stdout, warm.returncode) == (cold, 0)
    assert "starting Spark" not in warm.stderr
    file = project.root / "lake" / "_server.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    _serves_other_clients(project, url)
    _is_fresh(project, url)
    _serves_the_shell(project)
    _serves_the_other_commands(project)
    _ends(project)


def test_the_guide_shows_what_is_printed(project: Project, tmp_path: Path) -> None:
    follow(ROOT / "docs" / "guides" / "warm-session.md", Shell(project.root, tmp_path))


def _serves_other_clients(project: Project, url: str) -> None:
    done = project.client(url)
    assert done.stdout.splitlines() == ["['a']", "id"], done.stderr
    address = url.partition("/;")[0]
    for wrong in (address, f"{address}/;token=wrong"):
        refused = project.client(wrong)
        assert refused.returncode == 1
        assert "UNAUTHENTICATED" in refused.stderr


def _is_fresh(project: Project, url: str) -> None:
    """What a run applies, or leaves waiting in the log, is there at the next question."""
    for at, name in ((2, "b"), (3, "c")):
        project.drop(at, id=at, name=name)
        project.told("run")
        assert names(project.told(*ASK)) == ["a", "b", "c"][:at]
    assert project.client(url).stdout.splitlines()[0] == "['a', 'b', 'c']"
    project.told("rebuild", "people")
    moment = datetime.now(timezone.utc).isoformat()
    project.drop(4, id=1, name="A")
    project.told("run")
    assert names(project.told(*ASK)) == ["A", "b", "c"]
    past = project.told(*ASK[:3], "--as-of", moment, ASK[3])
    assert names(past) == ["a", "b", "c"]


def _serves_the_shell(project: Project) -> None:
    typed = (
        "\\d\nSELECT id,\n name FROM gold.people\n WHERE id = 2; SELECT 7 AS seven;\n\\d people\n"
    )
    printed = project.told("shell", given=typed)
    assert "gold    people" in printed
    assert "2  b" in printed
    assert "seven" in printed
    assert "name" in printed
    refused = project.type("shell", given="DROP VIEW gold.people;\nSELECT 1 AS one;\n\\nope\n")
    assert refused.returncode == 1
    assert "a command, DROP" in refused.stderr
    assert "\\nope" in refused.stderr
    assert "one" in refused.stdout
    assert names(project.told(*ASK)) == ["A", "b", "c"]


def _serves_the_other_commands(project: Project) -> None:
    commands = (
        ("status",),
        ("explain", "people", "--key", '{"id": 1}'),
        ("dead-letters", "list"),
        ("verify", "--all"),
        ("erase", "people", "--key", '{"id": 1}', "--dry-run"),
        ("status", "--format", "prometheus"),
    )
    for words in commands:
        done = project.type(*words)
        assert done.returncode == 0, done.stderr
        assert "starting Spark" not in done.stderr
    assert 'lakehouse_rows{table="people"} 3.0' in project.told(*commands[-1])


def _ends(project: Project) -> None:
    server = read_server(project.target)
    assert server is not None
    other = server.model_copy(update={"version": "0.0.1"})
    write_server(project.target, other)
    assert names(project.told(*ASK)) == ["A", "b", "c"]
    assert read_server(project.target) is None
    _waits_for_the_end_of(server)
    again = project.told("serve", "--idle", "3s").strip()
    assert again.startswith("sc://")
    idle = read_server(project.target)
    assert idle is not None
    _waits_for_the_end_of(idle)
    assert read_server(project.target) is None
    assert "no server" in project.told("serve", "--stop")
    project.told("serve")
    killed = read_server(project.target)
    assert killed is not None
    assert "is stopped" in project.told("serve", "--stop")
    _waits_for_the_end_of(killed)


def _waits_for_the_end_of(server: Server) -> None:
    until = time.monotonic() + SETTLED
    while _is_alive(server.pid):
        assert time.monotonic() < until, "the server goes on"
        time.sleep(0.2)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


def test_a_target_that_says_so_starts_a_server_with_the_first_question(project: Project) -> None:
    project.told("serve", "--stop")
    first, second = (project.type(*ASK, "--set", "serve=auto") for _ in range(2))
    assert "starting a server, which ends when idle for 10m" in first.stderr
    assert first.stdout == second.stdout != ""
    assert "starting" not in second.stderr
    server = read_server(project.target)
    assert server is not None
    project.told("serve", "--stop")
    _waits_for_the_end_of(server)


def test_what_a_killed_server_left_is_passed_over(project: Project) -> None:
    project.told("serve")
    server = read_server(project.target)
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    _waits_for_the_end_of(server)
    assert names(project.told(*ASK)) != []
    assert read_server(project.target) is None
