"""A generated project runs its own test over its sample, on a local Spark."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from cdc_lakehouse.cli.begin.bundle import Program, make_bundle


def test_a_new_projects_own_test_passes_and_finds_a_wrong_row(tmp_path: Path) -> None:
    make_bundle(tmp_path / "shop", "shop", None, Program(by_name=True))
    wrong = tmp_path / "shop" / "tests" / "expected" / "wrong.jsonl"
    wrong.write_text('{"id":1}\n')
    (tmp_path / "shop" / "conf" / "tables" / "wrong.yml").write_text(
        (tmp_path / "shop" / "conf" / "tables" / "orders.yml")
        .read_text()
        .replace("table: orders", "table: wrong")
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path / "shop", capture_output=True, text=True)
    assert (done.returncode, "1 failed, 2 passed" in done.stdout) == (1, True), done.stdout
    assert "test_gold_shows_what_is_expected[wrong]" in done.stdout


def test_a_pull_request_is_told_what_its_yaml_rebuilds(tmp_path: Path) -> None:
    """The workflow's own commands, in a clone whose branch changes a table."""
    make_bundle(tmp_path / "shop", "shop", None, Program(by_name=True))
    workflow = yaml.safe_load((tmp_path / "shop/.github/workflows/check.yml").read_text())
    (script,) = [
        step["run"]
        for step in workflow["jobs"]["tables"]["steps"]
        if "lakehouse plan" in step.get("run", "")
    ]
    git = "git -c user.name=a -c user.email=a@example.com"
    begin = f"""
        cd shop && git init -q -b main && git add . && {git} commit -q -m project
        git clone -q . ../work/clone && cd ../work/clone && git checkout -q -b change
        echo 'stored_as_scd_type: 2' >> conf/tables/orders.yml
    """
    (tmp_path / "work").mkdir()
    summary = tmp_path / "summary.md"
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", begin + script],
        cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| orders | rebuild | 5 | 2 | `lakehouse rebuild orders` |" in summary.read_text()
