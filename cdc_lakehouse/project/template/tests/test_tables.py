"""The tables of conf/tables over the small sample in tests/landing, on a Spark of this machine.

`tests/expected/TABLE.jsonl` has the rows that gold must show, one JSON object a line, as
`lakehouse sql --format json` prints them. A table without such a file must only run.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXPECTED = sorted(HERE.glob("expected/*.jsonl"))


def lakehouse(*arguments: str) -> str:
    """What a command prints; one that fails shows its message."""
    command = [sys.executable, "-m", "cdc_lakehouse", *arguments, f"--conf={HERE.parent / 'conf'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake that has read the sample once."""
    root = tmp_path_factory.mktemp("lake")
    shutil.copytree(HERE / "landing", root / "landing")
    lakehouse("run", f"--root={root}")
    return str(root)


def rows(text: str) -> list[str]:
    """Rows in an order of their own, with their columns in an order of their own."""
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in text.splitlines())


@pytest.mark.parametrize("file", EXPECTED, ids=lambda file: file.stem)
def test_gold_shows_what_is_expected(root: str, file: Path) -> None:
    query = f"SELECT * FROM gold.{file.stem}"
    shown = lakehouse("sql", query, "--format=json", f"--root={root}")
    assert rows(shown) == rows(file.read_text(encoding="utf-8"))


def test_the_sample_runs(root: str) -> None:
    assert Path(root, "lake").is_dir()
