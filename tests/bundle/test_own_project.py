"""A generated project runs its own test over its sample, on a local Spark."""

import subprocess
import sys
from pathlib import Path

from cdc_lakehouse.cli.begin.bundle import make_bundle


def test_a_new_projects_own_test_passes_and_finds_a_wrong_row(tmp_path: Path) -> None:
    make_bundle(tmp_path / "shop", "shop", None, None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path / "shop", capture_output=True, text=True)
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout
    (tmp_path / "shop" / "tests" / "expected" / "orders.jsonl").write_text('{"id":1}\n')
    wrong = [*command, "-k", "expected"]
    done = subprocess.run(wrong, cwd=tmp_path / "shop", capture_output=True, text=True)
    assert "1 failed" in done.stdout
