"""README.md and the demo's page show what is printed; README.md is short, and so is its table."""

from pathlib import Path

import pytest

from tests.pages.dialogue import LANGUAGE, blocks, follow
from tests.pages.shell import ROOT, Shell

README = ROOT / "README.md"
DEMO = ROOT / "docs" / "getting-started" / "index.md"
EXAMPLE = ROOT / "examples" / "debezium-events" / "conf" / "tables" / "orders.yml"


@pytest.mark.parametrize("page", [README, DEMO], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_the_clone_prints_what_the_page_shows(
    page: Path, shell_in_clone: Shell
) -> None:
    follow(page, shell_in_clone)


def test_commands_stand_in_dialogues_only() -> None:
    assert {language for language, _, _ in blocks(README)} == {LANGUAGE, "text", "yaml"}


def test_the_table_that_is_shown_is_the_one_that_runs() -> None:
    (shown,) = [lines for language, _, lines in blocks(README) if language == "yaml"]
    assert shown == EXAMPLE.read_text().splitlines()


def test_the_readme_fits_one_screen() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text) <= 6_000
    assert text.count("\n") <= 120


def test_ci_runs_the_command_for_tests_that_the_readme_names() -> None:
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert last == "make test test-live"
    assert f"`{last}` runs the tests" in README.read_text(encoding="utf-8")
