import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.wheel import build_wheel
from tests.pages.shell import ROOT, WIDTH, Shell, Told, end_servers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = (
    "LICENSE", "Makefile", "README.md", "databricks.yml", "pyproject.toml", "requirements.lock",
    "bronze", "cdc_lakehouse", "conf", "environments", "examples", "gold", "lakehouse", "resources",
    "silver",
)  # fmt: skip
WRITTEN = shutil.ignore_patterns("lake", "__pycache__")


CLONE = "cdc-lakehouse"
DEMO = "lakehouse demo"


def make_clone(folder: Path) -> Path:
    """A copy of the project in a folder, in which `make venv` was done."""
    made = folder / CLONE
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


@pytest.fixture(autouse=True)
def _end_servers(tmp_path: Path) -> Iterator[None]:
    """Ends the servers that commands have started for the next ones."""
    yield
    end_servers(tmp_path)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that stands in for the published package."""
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the demo printed in an empty folder: two pages show it."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "home").mkdir()
    return Shell(folder / "home", folder).type(DEMO)


@pytest.fixture
def shell(tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in an empty folder; plain `lakehouse` commands run in the tests' own session."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    home = tmp_path / "home"
    home.mkdir()
    return Shell(home, tmp_path, in_process=True)


@pytest.fixture
def shell_after_demo(
    tmp_path: Path, demo: Told, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """The same, where the demo was run elsewhere."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    home = tmp_path / "home"
    home.mkdir()
    return Shell(home, tmp_path, in_process=True, known={DEMO: demo})
