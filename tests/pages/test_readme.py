"""README.md and the demo's page show what is printed; README.md is short, and so is its table."""

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from cdc_lakehouse.project.rendering import TEMPLATE
from lakehouse.durations import render_duration
from tests.e2e import postgres
from tests.e2e.test_capture import needs_postgres
from tests.pages.dialogue import COMMANDS, blocks, follow
from tests.pages.shell import ROOT, Shell

README = ROOT / "README.md"
DEMO = ROOT / "docs" / "getting-started" / "index.md"
EXAMPLE = TEMPLATE / "conf" / "tables" / "orders.yml"


INSTALL, INSTALL_ALL, REQUIREMENTS = (
    "pip install -q 'cdc-lakehouse[local]'",
    "pip install -q '.[local,capture,mysql]'",
    "pip install -q -r requirements.txt",
)
BESIDE = "../mine"
SOURCE = "postgresql://me@db.example:5432/shop"


def offline(wheel: Path) -> str:
    """Installs the wheel alone: the wheel stands in for the published package."""
    return f"pip install -q --no-index --no-deps --ignore-installed {wheel}"


def test_every_command_of_the_demos_page_prints_what_the_page_shows(
    shell_after_demo: Shell, wheel: Path
) -> None:
    follow(DEMO, shell_after_demo, own={INSTALL: offline(wheel)})


@pytest.mark.slow
@needs_postgres
def test_the_readme_is_typed_where_nothing_is_but_the_wheel(
    tmp_path: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an empty folder, with an environment of its own; the wheel stands in for the clone.

    Where no index is reached, what the wheel needs is borrowed from the tests' environment.
    """
    look = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp_path, "typer"]
    reached = subprocess.run(look, capture_output=True, timeout=60).returncode == 0
    mine = f"{sys.prefix}{os.sep}"
    others = [p for p in os.environ["PATH"].split(os.pathsep) if not f"{p}/".startswith(mine)]
    variables = {
        "PATH": os.pathsep.join([f"{sys.base_prefix}/bin", *others]),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
        "PYTHONPATH": "" if reached else sysconfig.get_path("purelib"),
    }
    home = tmp_path / "home"
    home.mkdir()
    began = time.monotonic()
    reached_or_not = {
        True: {INSTALL_ALL: f"pip install -q '{wheel}[local,capture,mysql]'"},
        False: {INSTALL_ALL: offline(wheel), REQUIREMENTS: "true"},
    }
    own = {**reached_or_not[reached], BESIDE: "mine"}
    server = postgres.start("readme")
    try:
        follow(README, Shell(home, tmp_path, variables), own={**own, SOURCE: server.url})
    finally:
        server.stop()
    took = render_duration(time.monotonic() - began)
    with capsys.disabled():
        print(
            f"\nREADME.md, from an empty folder to the project's own test: {took}"
            f"{'' if reached else ' (no index was reached: packages are borrowed)'}"
        )


def test_commands_stand_in_dialogues_only() -> None:
    assert {language for language, _, _ in blocks(README)} == {COMMANDS, "text", "yaml"}


def test_the_table_that_is_shown_is_the_one_that_runs() -> None:
    (shown,) = [lines for language, _, lines in blocks(README) if language == "yaml"]
    lines = EXAMPLE.read_text().splitlines()
    assert shown == [line for line in lines if not line.startswith("#")]


def test_the_readme_fits_one_screen() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text) <= 6_000
    assert text.count("\n") <= 150


def test_ci_runs_the_command_for_tests_that_the_readme_names() -> None:
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert last == "make test test-live LAKEHOUSE_LIVE=short"
    assert f"`{last}` runs the tests" in README.read_text(encoding="utf-8")
