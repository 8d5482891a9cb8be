"""The guide's first example in an environment of the wheel, pyspark and delta-spark alone."""

import os
import re
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

GUIDE = Path("docs/guides/auto-cdc-in-your-own-job.md")


@pytest.mark.slow
def test_the_first_example_runs_with_pyspark_and_delta_alone(wheel: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python(?: title=[^\n]*)?\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    program = "\n".join(blocks[:2])
    assert ("SparkSession" in blocks[0], program.count("\n") < 30) == (True, True)
    (tmp_path / "program.py").write_text(program)
    venv.create(tmp_path / "fresh")
    python = tmp_path / "fresh" / "bin" / "python"
    pinned = [f"{name}=={version(name)}" for name in ("pyspark", "delta-spark")]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    subprocess.run([*pip, wheel, *pinned], check=True)
    own = {name: text for name, text in os.environ.items() if not name.startswith("PY")}
    own["PATH"] = f"{python.parent}:{own['PATH']}"  # as `activate` does: Spark's workers need it
    done = subprocess.run(
        [python, "program.py"], cwd=tmp_path, env=own, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "1 2 0\n"), done.stderr
