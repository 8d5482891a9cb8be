"""The wheels beside a project's bundle: the program's own, and what the jobs install with it.

Nobody but the project's owner decides what its jobs install: the name of a package that is on no
index, or on another index too, could be anybody's.
"""

import base64
import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from lakehouse.errors import ConfigurationError

FOLDER, PACKAGE = "wheels", "cdc-lakehouse"
MODULES = ("bronze", "cdc_lakehouse", "gold", "lakehouse", "silver")
_OF_JOBS = ("--only-binary=:all:", "--python-version=3.12", "--implementation=cp")
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
"""What pip has to know of the machines of the jobs, as they are not this one."""
_WHEEL = "Wheel-Version: 1.0\nGenerator: cdc-lakehouse\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def put_wheel(folder: Path, given: Path | None) -> str:
    """Puts a wheel into a project, or the program's own by what is installed; returns its name.

    Raises:
        ConfigurationError: the file is no wheel of this program.
    """
    name = given.name if given is not None else _own_name()
    if given is not None and not (given.is_file() and _is_ours(name)):
        expected, action = "a wheel cdc_lakehouse-VERSION-py3-none-any.whl", "build or fetch it"
        raise ConfigurationError("command line", "--wheel", str(given), expected, action)
    content = given.read_bytes() if given is not None else None
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for other in place.iterdir():
        if _is_ours(other.name):
            other.unlink()
    if content is not None:
        (place / name).write_bytes(content)
    else:
        _pack_installed(place / name)
    return name


def download_needed(folder: Path, lists: Iterable[str]) -> None:
    """Puts the packages of requirement lists into the project, for the machines of the jobs.

    Raises:
        ConfigurationError: pip does not get one of them.
    """
    lines = {line for text in lists for line in text.splitlines() if not line.startswith("-")}
    platforms = [f"--platform={platform}" for platform in _PLATFORMS]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *_OF_JOBS, *platforms]
    command = [*pip, "--dest", str(folder / FOLDER), *sorted(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        expected = "pip downloads what the jobs need"
        action = "repeat it where pip reaches an index"
        raise ConfigurationError("command line", "--offline", errors[-1], expected, action)


def _is_ours(name: str) -> bool:
    return name.startswith(PACKAGE.replace("-", "_")) and name.endswith(".whl")


def _own_name() -> str:
    return f"{_stem()}-py3-none-any.whl"


def _stem() -> str:
    return f"{PACKAGE.replace('-', '_')}-{distribution(PACKAGE).version}"


def _pack_installed(file: Path) -> None:
    """Writes a wheel of the installed program; of the same program always the same bytes."""
    record = f"{_stem()}.dist-info/RECORD"
    lines = []
    with ZipFile(file, "w", ZIP_DEFLATED) as wheel:
        for name, content in _installed_files():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            lines.append(f"{name},sha256={digest},{len(content)}\n")
            wheel.writestr(ZipInfo(name), content, ZIP_DEFLATED)
        wheel.writestr(ZipInfo(record), "".join([*lines, f"{record},,\n"]), ZIP_DEFLATED)


def _installed_files() -> Iterator[tuple[str, bytes]]:
    """The program's modules and their data, then what a wheel says of itself."""
    for module in MODULES:
        spec = find_spec(module)
        root = Path(spec.origin).parent if spec is not None and spec.origin else Path(module)
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield f"{module}/{file.relative_to(root).as_posix()}", file.read_bytes()
    for name in ("METADATA", "entry_points.txt"):
        yield f"{_stem()}.dist-info/{name}", (distribution(PACKAGE).read_text(name) or "").encode()
    yield f"{_stem()}.dist-info/WHEEL", _WHEEL.encode()
