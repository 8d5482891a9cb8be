"""Every example runs, and prints what its page shows."""

import shutil
from pathlib import Path

import pytest

from tests.pages.dialogue import follow, steps
from tests.pages.shell import ROOT, Shell

EXAMPLES = sorted(file.parent.name for file in (ROOT / "examples").glob("*/README.md"))
LONGEST = "csv-snapshots"


def test_there_is_a_page_for_every_example() -> None:
    folders = sorted(file.parent.parent.name for file in (ROOT / "examples").glob("*/conf/tables"))
    assert folders == EXAMPLES
    overview = (ROOT / "examples" / "README.md").read_text()
    assert all(f"({name}/README.md)" in overview for name in EXAMPLES)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n == LONGEST else []) for n in EXAMPLES],
)
def test_an_example_prints_what_its_page_shows(name: str, shell: Shell, tmp_path: Path) -> None:
    copied = shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    shutil.rmtree(copied / "lake", ignore_errors=True)
    page = ROOT / "examples" / name / "README.md"
    assert steps(page)
    shell.type(f"cd {copied}")
    follow(page, shell)
