"""The files that docs/guides/orchestration.md shows are read by what can read them here."""

import ast
import configparser
from pathlib import Path

import yaml

from cdc_lakehouse.cli.commands import app
from tests.pages.dialogue import blocks

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "orchestration.md"
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
