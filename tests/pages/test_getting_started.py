"""A new user who types *Getting started* sees what the pages show."""

from pathlib import Path

import pytest

from tests.e2e import test_getting_started as postgresql
from tests.pages import test_databricks as databricks
from tests.pages import test_examples as examples
from tests.pages import test_readme as readme
from tests.pages.dialogue import COMMANDS, blocks, follow, steps
from tests.pages.shell import ROOT, Shell

PAGES = ROOT / "docs" / "getting-started"
FIRST_TABLE = PAGES / "first-table.md"
FROM_DATABASES = {postgresql.PAGE, postgresql.KAFKA_PAGE}
FOLLOWED = {readme.README, readme.DEMO, FIRST_TABLE, databricks.PAGE} | FROM_DATABASES
NO_COMMANDS = {"properties", "sql", "text", "yaml"}


@pytest.mark.slow
def test_the_first_table_is_typed_from_an_empty_folder(shell: Shell) -> None:
    follow(FIRST_TABLE, shell)


def test_every_page_is_followed_by_a_test() -> None:
    assert {readme.README, *PAGES.glob("*.md")} == FOLLOWED


@pytest.mark.parametrize(
    "page",
    sorted(FOLLOWED | {ROOT / "examples" / name / "README.md" for name in examples.EXAMPLES}),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_command_stands_in_a_dialogue(page: Path) -> None:
    assert {language for language, _, _ in blocks(page)} <= {COMMANDS, *NO_COMMANDS}


def test_no_line_of_a_command_or_its_output_is_wider_than_a_terminal() -> None:
    for page in sorted(PAGES.glob("*.md")):
        for step in steps(page):
            assert all(len(line) <= 80 for line in step.shown), step
            assert len(step.shown) <= 60, step
