"""A new user who types *Getting started* sees what the pages show."""

from tests.pages.dialogue import follow, steps
from tests.pages.shell import ROOT, Shell

PAGES = ROOT / "docs" / "getting-started"


def test_the_first_table_is_typed_from_an_empty_folder(shell: Shell) -> None:
    follow(PAGES / "first-table.md", shell)


def test_the_table_for_databricks_is_tried_in_a_clone(shell_in_new_clone: Shell) -> None:
    follow(PAGES / "databricks.md", shell_in_new_clone)


def test_no_line_of_a_command_or_its_output_is_wider_than_a_terminal() -> None:
    for page in sorted(PAGES.glob("*.md")):
        for step in steps(page):
            assert all(len(line) <= 80 for line in step.shown), step
            assert len(step.shown) <= 60, step
