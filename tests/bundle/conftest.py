import subprocess
from pathlib import Path

import pytest

from tests.helpers.wheel import PROJECT, build_wheel, install_wheel


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's own folder, which is the bundle's."""
    return PROJECT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs of a clean environment with the wheel."""
    return install_wheel(wheel, tmp_path_factory.mktemp("clean"))


def ended(
    *command: str | Path, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A finished process that sees the wheel only: neither this project's folder nor PYTHONPATH."""
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
