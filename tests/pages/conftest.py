import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages.shell import ROOT, WIDTH, Shell, Told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = ("Makefile", "pyproject.toml", "requirements.lock", "conf", "examples")
WRITTEN = shutil.ignore_patterns("lake", "_*")


DEMO = "make demo"


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, in which `make venv` was done."""
    made = tmp_path_factory.mktemp("clone") / "cdc-lakehouse"
    made.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, made / part, ignore=WRITTEN)
        else:
            shutil.copy(ROOT / part, made)
    programs = made / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "lakehouse").symlink_to(Path(sys.prefix, "bin", "lakehouse"))
    (made / ".venv" / ".made").touch()
    return made


@pytest.fixture(scope="session")
def demo(clone: Path) -> Told:
    """What the demo printed in the clone: two pages show it."""
    return Shell(clone, clone.parent).type(DEMO)


@pytest.fixture
def shell(tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in an empty folder; plain `lakehouse` commands run in the tests' own session."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    home = tmp_path / "home"
    home.mkdir()
    return Shell(home, tmp_path, in_process=True)


@pytest.fixture
def shell_in_clone(
    clone: Path, demo: Told, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """The same in the clone, in which the demo was run."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    return Shell(clone, clone.parent, in_process=True, known={DEMO: demo})


@pytest.fixture
def shell_in_new_clone(
    clone: Path, tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """The same in a clone in which nothing was run."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    shutil.copytree(clone, tmp_path / clone.name, ignore=WRITTEN, symlinks=True)
    return Shell(tmp_path / clone.name, tmp_path, in_process=True)
