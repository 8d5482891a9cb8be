"""README.md and the demo's page show what is printed; README.md is short, and so is its table."""

from pathlib import Path

import pytest

from cdc_lakehouse.project.rendering import TEMPLATE
from tests.pages.dialogue import COMMANDS, blocks, follow
from tests.pages.shell import ROOT, Shell

README = ROOT / "README.md"
DEMO = ROOT / "docs" / "getting-started" / "index.md"
EXAMPLE = TEMPLATE / "conf" / "tables" / "orders.yml"


@pytest.mark.parametrize("page", [README, DEMO], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_prints_what_the_page_shows(
    page: Path, shell_after_demo: Shell, wheel: Path
) -> None:
    """The wheel stands in for the published package; its own packages are not installed again."""
    install = f"pip install -q --no-index --no-deps {wheel}"
    follow(page, shell_after_demo, own={"pip install -q 'cdc-lakehouse[local]'": install})


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
    assert last == "make test test-live"
    assert f"`{last}` runs the tests" in README.read_text(encoding="utf-8")
