"""A new user types the page for Databricks: a folder stands for the workspace, see tests/workspace.

The bundle, the wheel, its entry points and the jobs are the real ones.
"""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages.conftest import make_clone
from tests.pages.dialogue import blocks, fits, follow, plain
from tests.pages.shell import ROOT, WIDTH, Shell
from tests.workspace import cli
from tests.workspace.bundles import deploy, run_job
from tests.workspace.folders import Refused, Workspace, copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "getting-started" / "databricks.md"
CATALOG, OF_THE_PAGE = "lakehouse_dev", "shop_dev"
ADDRESS, USER = "Ada.Lovelace@example.com", "ada_lovelace"
NAME_ON_THE_PAGE = "YOU"
LANDING = f"dbfs:/Volumes/{CATALOG}/dev_{USER}_bronze/landing"
FILES = "examples/debezium-events/landing/shop"
BUILD = f"{sys.executable} -m build --wheel --no-isolation"
"""As the guide says for a machine without a network."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace with the catalog that the page wants."""
    folder = tmp_path / "workspace"
    (folder / "Volumes" / CATALOG).mkdir(parents=True)
    return Workspace(folder, ADDRESS)


@pytest.fixture
def shell(tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in an empty folder; its `databricks` is signed in to the workspace."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    programs = tmp_path / "bin"
    programs.mkdir()
    databricks = programs / "databricks"
    databricks.write_text(f"#!{sys.executable}\nfrom tests.workspace.cli import main\nmain()\n")
    databricks.chmod(0o755)
    return Shell(
        home,
        tmp_path,
        {
            "PATH": f"{programs}:{sys.prefix}/bin:{os.environ['PATH']}",
            cli.FOLDER: str(workspace.folder),
            cli.USER: workspace.user,
        },
        in_process=True,
    )


def test_the_page_leads_from_nothing_to_rows_in_the_workspace(
    shell: Shell, workspace: Workspace, spark: "SparkSession"
) -> None:
    (workspace.folder / "Volumes" / OF_THE_PAGE).mkdir()
    follow(PAGE, shell, own={NAME_ON_THE_PAGE: USER})
    query, shown = _last_query()
    query = query.replace(f"{OF_THE_PAGE}.dev_{NAME_ON_THE_PAGE}_gold.", "gold.")
    told = shell.type(f'lakehouse sql "{query}" --root {workspace.lake(OF_THE_PAGE)}')
    assert told.code == 0 and fits(shown, plain(told.text)), told
    shell.type("cd .. && lakehouse init --bundle billing --catalog shop && cd billing")
    assert shell.type("databricks bundle deploy").code == 0
    refused = shell.type("databricks bundle run cdc")
    assert refused.code == 1
    assert "found:    billing\n  expected: shop, whose tables are in" in refused.text


def _last_query() -> tuple[str, list[str]]:
    """The query that the page has its reader type in a SQL editor, and the rows that it shows."""
    found = {language: lines for language, _, lines in blocks(PAGE)}
    return " ".join(found["sql"]), found["text"]


@pytest.mark.parametrize(
    ("file", "right", "wrong", "found"),
    [
        ("databricks.yml", "targets:\n", "targets: [\n", "parsing"),
        ("databricks.yml", "catalog: lakehouse_dev", "catalogue: lakehouse_dev", "${var.catalog}"),
        ("databricks.yml", "catalog: lakehouse_dev", "catalog: main", "'main' does not exist"),
        ("databricks.yml", "default: uv build --wheel", 'default: "false"', "build failed"),
        ("resources/bronze.schema.yml", "${var.catalog}", "main", "hard_coded_name"),
        ("resources/cdc.job.yml", "queue:", "queu:", "Unexpected field 'queu'"),
        ("resources/quality.job.yml", "[{task_key: quality}]", "[{task_key: qualit}]", "qualit"),
    ],
)
def test_a_deploy_refuses_a_fault_and_changes_nothing(
    workspace: Workspace, tmp_path: Path, file: str, right: str, wrong: str, found: str
) -> None:
    clone = make_clone(tmp_path)
    text = (clone / file).read_text()
    assert right in text
    (clone / file).write_text(text.replace(right, wrong, 1))
    with pytest.raises(Refused, match=re.escape(found)):
        deploy(workspace, clone)
    assert [path.name for path in workspace.folder.rglob("*")] == ["Volumes", CATALOG]


def test_what_no_deploy_made_is_refused(
    shell: Shell, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_clone(tmp_path))
    with pytest.raises(Refused, match="unable to locate bundle root"):
        deploy(workspace, tmp_path)
    with pytest.raises(Refused, match="not yet deployed"):
        run_job(workspace, "cdc")
    with pytest.raises(Refused, match="no such directory"):
        copy(workspace, FILES, f"{LANDING}/shop", recursive=True)
    Path("conf", "tables", "orders.yml").write_text("keys: [")
    monkeypatch.setenv("BUNDLE_VAR_build", BUILD)
    deploy(workspace, Path())
    for source, target in (
        (FILES, f"{LANDING.replace('_bronze', '_bronz')}/shop"),
        (FILES, f"{LANDING.replace('/landing', '/landings')}/shop"),
        (FILES, f"{LANDING.replace(f'dev_{USER}_', '')}/shop"),
        (FILES, f"{LANDING.removeprefix('dbfs:')}/shop"),
        (f"{FILES}s", f"{LANDING}/shop"),
        (f"{FILES}/1.jsonl", f"{LANDING}/not/there/1.jsonl"),
    ):
        with pytest.raises(Refused):
            copy(workspace, source, target, recursive=True)
    assert [*workspace.at(LANDING.removeprefix("dbfs:")).iterdir()] == []
    _check_copies(workspace)
    with pytest.raises(Refused, match="job cdc: task run failed"):
        run_job(workspace, "cdc")
    with pytest.raises(Refused, match='resource with key "cdx" not found'):
        run_job(workspace, "cdx")
    monkeypatch.setattr("tests.pages.dialogue.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```sh\ndatabricks bundle run cdx\n```\n\n```text\n…\n```\n")
    with pytest.raises(AssertionError, match="code 1: Error: resource with key"):
        follow(page, shell)


def _check_copies(workspace: Workspace) -> None:
    """A file goes where Databricks' CLI copies it to."""
    one, shop = f"{FILES}/1.jsonl", f"{LANDING}/shop"
    with pytest.raises(Refused, match="Please specify the --recursive flag"):
        copy(workspace, FILES, shop, recursive=False)
    copied = copy(workspace, FILES, shop, recursive=True)
    assert copied == [f"{FILES}/{name} -> {shop}/{name}" for name in ("1.jsonl", "2-late.jsonl")]
    again = copy(workspace, one, f"{shop}/", recursive=False)
    assert again == [f"{one} -> {shop}/1.jsonl (skipped; already exists)"]
    # What is no folder is the name of the file, with a slash at its end too.
    named = copy(workspace, one, f"{LANDING}/other/", recursive=False)
    assert named == [f"{one} -> {LANDING}/other"]
