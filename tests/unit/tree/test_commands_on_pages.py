"""Commands, messages, metrics and versions that pages name are those of the code."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from cdc_lakehouse.cli.commands import app
from gold.status import metrics
from tests.pages.dialogue import blocks
from tests.unit.tree.test_architecture import MODULES, ROOT
from tests.unit.tree.test_markdown import PAGES, named, text_of

GUIDES = ROOT / "docs" / "guides"
COMMAND = re.compile(
    r"(?:^|[ /(`])(lakehouse (?:--\w+ )*[a-z][a-z-]*(?= |$|`)"
    r"""(?:"[^"]*"|'[^']*'|[^|;&>`)"'])*)"""
)
WHOLE: Any = get_command(app)
IN_FRONT = ("--quiet", "--verbose")
NO_COMMANDS = (
    "docs/reference/commands.md",
    "CHANGELOG.md",
    "docs/reference/version-0.3.md",
    "docs/reference/earlier-versions.md",
)
"""Made from the code, or about versions of the past."""
WITH_COMMANDS = [page for page in PAGES if named(page) not in NO_COMMANDS]


def commands(page: Path) -> list[str]:
    """The `lakehouse` commands of the page's blocks, each without its comment."""
    lines = [line for kind, _, lines in blocks(page) if kind in ("", "sh") for line in lines]
    code = [re.sub(r"\s+#.*", "", line) for line in lines]
    return [found[1].strip() for line in code for found in COMMAND.finditer(line)]


def parse(text: str) -> None:
    """Reads a command line as the program does, and runs nothing."""
    command, name = WHOLE, ""
    words = [word for word in shlex.split(text)[1:] if word not in IN_FRONT]
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    if "--help" not in words:
        command.make_context(name, words)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=named)
def test_a_command_that_a_page_shows_is_one_that_the_program_takes(page: Path) -> None:
    for text in commands(page):
        try:
            parse(text)
        except Exception as refused:
            pytest.fail(f"{text}: {refused!r}")


def test_commands_are_found_and_a_wrong_one_is_refused() -> None:
    assert len([text for page in WITH_COMMANDS for text in commands(page)]) > 80
    for wrong in (
        "lakehouse rum",
        "lakehouse run --tabel orders",
        "lakehouse verify --sample many",
    ):
        with pytest.raises(Exception, match=r"rum|tabel|integer"):
            parse(wrong)


def test_a_message_of_the_troubleshooting_page_is_one_of_the_code() -> None:
    table = (
        text_of(GUIDES / "troubleshooting.md").partition("## By message")[2].partition("\n## ")[0]
    )
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    wanted = [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]
    code = "".join(module.read_text(encoding="utf-8") for module in MODULES)
    said = re.sub(r'"\s*f?"', "", code)
    assert len(wanted) > 12 and [message for message in wanted if message not in said] == []


def test_the_rules_for_prometheus_ask_for_metrics_that_there_are() -> None:
    text = next(
        "\n".join(lines)
        for kind, _, lines in blocks(GUIDES / "watching.md")
        if kind == "yaml" and lines[0] == "groups:"
    )
    known = {f"lakehouse_{family.name}" for family in metrics.FAMILIES}
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    asked = [name for rule in rules for name in re.findall(r"lakehouse_\w+", rule["expr"])]
    assert len(asked) == 5 and set(asked) <= known


def test_the_compatibility_page_names_the_versions_that_are_pinned() -> None:
    page = text_of(ROOT / "docs" / "reference" / "compatibility.md")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pins = re.findall(r'"(?:delta-spark|pyspark\[connect\])==([\d.]+)"', project)
    pins += re.findall(r'"databricks-connect==([\d.]+)\.\*', project)
    assert len(pins) == 4 and [pin for pin in pins if pin not in page] == []
    assert 'requires-python = ">=3.10,<3.13"' in project and "3.10, 3.11, 3.12" in page
