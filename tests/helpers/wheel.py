"""The wheel, and a Python that has nothing of this project but the wheel."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """The wheel as the bundle's artifact is built, but with the back end that is installed here."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
    subprocess.run([*build, PROJECT], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Folder of the programs of a clean environment with the wheel; what it needs is borrowed."""
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", wheel], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent
