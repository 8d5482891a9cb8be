"""What a repository needs agrees with the code: workflows, changelog, licence."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_a_make_target_with_pinned_actions(workflow: Path) -> None:
    (job,) = yaml.safe_load(workflow.read_text())["jobs"].values()
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = [step["run"].split() for step in job["steps"] if "run" in step]
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert [(command[0], command[1] in targets) for command in called] == [("make", True)]
    assert [each for each in actions if not re.search(r"@v\d+\.\d+\.\d+$", each)] == []


def test_the_newest_version_in_the_changelog_is_the_packages() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", changelog, re.MULTILINE)
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared and versions[0] == declared[1]


def test_the_licence_is_the_one_that_the_metadata_names() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License\n" in text and "Version 2.0, January 2004" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
