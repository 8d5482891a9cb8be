"""A Python function has 1 GB on serverless compute, for the interpreter and its input too."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.function_memory import WORKS

MOST_MB = 900


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
def test_a_function_stays_below_what_serverless_compute_gives(work: str) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.helpers.function_memory", work]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert int(done.stdout) < MOST_MB
