import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's own folder, which is the bundle's."""
    return PROJECT


@pytest.fixture(scope="session")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as the bundle's artifact is built, but with the back end that is installed here."""
    folder = tmp_path_factory.mktemp("dist")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        folder,
        project,
    ]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs of a clean environment with the wheel; what it needs is borrowed."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", wheel], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent


def ended(
    *command: str | Path, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A finished process that sees the wheel only: neither this project's folder nor PYTHONPATH."""
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
