import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundle.lint.reading import read, resolved

PARTS = ("bronze", "cdc_lakehouse", "conf", "gold", "lakehouse", "silver")
BUILDER = f"{sys.executable} -m build --wheel --no-isolation"


@pytest.fixture
def source(project: Path, tmp_path: Path) -> Path:
    """A copy of what the wheel is built from."""
    for name in PARTS:
        shutil.copytree(project / name, tmp_path / name)
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(project / name, tmp_path)
    return tmp_path


def built(project: Path, source: Path) -> tuple[str, int]:
    """Name and time of the one wheel that the bundle's build command leaves in dist/."""
    bundle = read(project, "dev")
    command = resolved(
        bundle.settings["artifacts"]["wheel"]["build"], bundle.known | {"var.build": BUILDER}
    )
    subprocess.run(["bash", "-ec", command], cwd=source, check=True, capture_output=True)
    [wheel] = (source / "dist").iterdir()
    return wheel.name, wheel.stat().st_mtime_ns


def test_a_wheel_is_renewed_by_what_changes_and_by_nothing_else(
    project: Path, source: Path
) -> None:
    """The time of the wheel is its version in development: a newer one changes every job."""
    first = built(project, source)
    assert built(project, source) == first
    (source / "conf" / "tables" / "orders.yml").write_text("table: mine\n")
    assert built(project, source) == first
    (source / "gold" / "new.py").write_text('"""New."""\n')
    changed = built(project, source)
    assert changed[0] == first[0] and changed[1] > first[1]
    settings = source / "pyproject.toml"
    settings.write_text(settings.read_text().replace('version = "0.', 'version = "7.', 1))
    assert built(project, source)[0] == first[0].replace("-0.", "-7.", 1)
