"""`status` and `report` read the lake's file: no engine is imported, and ages are those of now."""

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from gold.status.figures import Figures
from gold.status.status_file import FILE, KnownStatus, update_known, write_known
from lakehouse.config.target import Target

NOW = datetime.now(timezone.utc)
HEAVY = ("pyspark", "pyarrow", "pandas", "duckdb", "great_expectations")
COMMAND = f"""
import sys
from cdc_lakehouse.cli import main
try:
    main()
finally:
    print([name for name in {HEAVY} if name in sys.modules])
"""
PEOPLE = {
    "table": "people",
    "source": {"format": "rows", "path": "people"},
    "keys": ["id"],
    "columns": {"id": "int", "name": "string"},
    "sequence_by": "at",
}


class Project:
    """A configuration with one table, and a lake that has nothing but the status file."""

    def __init__(self, root: Path) -> None:
        self.root, self.target = root, Target(root=str(root))
        (root / "landing" / "people").mkdir(parents=True)
        (root / "lake").mkdir()
        self.describe(**PEOPLE)
        self.write("targets/local", kind="local", root=".")

    def describe(self, **table: Any) -> None:
        """Writes the YAML of a table."""
        self.write(f"tables/{table['table']}", **table)

    def write(self, name: str, **document: Any) -> None:
        file = self.root / "conf" / f"{name}.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(document))

    def know(self, **values: Any) -> None:
        """Writes the status file."""
        since = NOW - timedelta(hours=3)
        given = {
            "rows": 7,
            "watermark": since,
            "as_of": NOW,
            "columns": {"id": "integer", "name": "string"},
        }
        update_known(self.target, {"people": given | values})

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        options = ["--conf", str(self.root / "conf"), "--root", str(self.root)]
        command = [sys.executable, "-c", COMMAND, *words, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def ask(self) -> dict[str, Any]:
        """The record of the one table."""
        record: dict[str, Any] = json.loads(
            self.type("status", "--format", "json").stdout.splitlines()[0]
        )
        return record


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_status_is_read_without_an_engine(project: Project) -> None:
    project.know()
    for options in ([], ["--wide"], ["--format", "json"], ["--format", "prometheus"]):
        done = project.type("status", *options)
        assert (done.stdout.splitlines()[-1], done.returncode) == ("[]", 0), done.stderr
    assert "people  ok        7  3 h" in project.type("status").stdout
    assert 'lakehouse_rows{table="people"} 7.0' in done.stdout


def test_a_lake_without_the_file_says_what_to_do(project: Project) -> None:
    done = project.type("status")
    assert done.returncode == 2
    assert str(project.root / "lake" / FILE) in done.stderr
    assert "`lakehouse run` writes it" in done.stderr


def test_what_was_known_is_shown_with_the_yaml_of_now(project: Project) -> None:
    project.know(waiting_since=NOW - timedelta(hours=1), pending=2)
    assert (project.ask()["stale"], project.ask()["warnings"]) == (False, [])
    columns = PEOPLE["columns"] | {"id": "string"}
    project.describe(**PEOPLE | {"max_staleness": "5 minutes", "columns": columns})
    (warning,) = project.ask()["warnings"]
    assert warning.startswith("column id was int, is string; do: put the YAML back, or ")
    assert project.ask()["stale"]


def test_a_landing_folder_that_is_gone_since_is_named(project: Project) -> None:
    project.know()
    (project.root / "landing" / "people").rmdir()
    (warning,) = project.ask()["warnings"]
    assert "does not exist" in warning


def test_a_table_that_no_run_has_seen_says_so(project: Project) -> None:
    project.know()
    project.describe(**PEOPLE | {"table": "orders"})
    first = json.loads(project.type("status", "--format", "json").stdout.splitlines()[0])
    assert (first["table"], first["rows"]) == ("orders", 0)
    assert first["warnings"] == ["no run has worked on this table yet; do: `lakehouse run`"]


def test_a_run_that_has_written_since_is_told(project: Project) -> None:
    project.know()
    log = project.root / "lake" / "silver" / "_runs" / "_delta_log"
    log.mkdir(parents=True)
    assert "a run has written" not in project.type("status").stdout
    (log / f"{0:020}.json").write_text("")
    told = " ".join(project.type("status").stdout.split())
    assert f"a run has written since {NOW:%F %T} UTC, when these figures were taken: it is " in told
    write_known(project.target, KnownStatus(commit=0, tables={"people": Figures(rows=7)}))
    assert "a run has written" not in project.type("status").stdout


def test_the_report_is_written_without_spark(project: Project) -> None:
    project.know()
    done = project.type("report")
    assert done.returncode == 0, done.stderr
    assert "pyspark" not in done.stdout.splitlines()[-1]
    page = (project.root / "lake" / "_report" / "report.html").read_text("utf-8")
    assert "people" in page
