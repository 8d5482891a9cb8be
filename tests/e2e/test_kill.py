"""Kill -9 of `lakehouse run` at random moments while events flow: nothing lost, nothing twice."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.one_table import answer, command, drop, events, lake, succeeds

pytestmark = pytest.mark.live

KILLS = int(os.environ.get("LAKEHOUSE_KILLS", "3"))
EVENTS = int(os.environ.get("LAKEHOUSE_KILL_EVENTS", "10000"))
PER_FILE = 1000


def killed_after(seconds: float, options: list[str]) -> bool:
    """Starts `lakehouse run` and kills it with its JVM; False when it was done before."""
    run = subprocess.Popen(
        command("run", options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        children = subprocess.run(
            ["pgrep", "-P", str(run.pid)], capture_output=True, text=True, check=False
        )
        os.kill(run.pid, signal.SIGKILL)
        for child in children.stdout.split():
            os.kill(int(child), signal.SIGKILL)
        run.wait()
        return True
    return False


@pytest.mark.parametrize("scd", [1, 2])
def test_runs_that_are_killed_end_as_an_undisturbed_one(tmp_path: Path, scd: int) -> None:
    chance = random.Random(scd)
    records = list(events(scd, EVENTS))
    files = [records[at : at + PER_FILE] for at in range(0, EVENTS, PER_FILE)]
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    calmly, wildly = lake(calm, scd), lake(wild, scd)
    for number, part in enumerate(files):
        drop(calm, number, part)
    began = time.monotonic()
    succeeds("run", calmly)
    lasts = time.monotonic() - began
    kills, dropped = 0, 0
    while kills < KILLS:
        for number in range(dropped, len(files) * (kills + 1) // KILLS):
            drop(wild, number, files[number])
            dropped = number + 1
        kills += killed_after(chance.uniform(0.2, 1.0) * lasts, wildly)
    succeeds("run", wildly)
    view = "gold.t" if scd == 1 else "gold.t_history"
    query = f"SELECT * FROM {view} ORDER BY ALL"
    assert answer(wildly, query) == answer(calmly, query)
    once = "SELECT count(*) AS n, count(DISTINCT _offset) AS offsets FROM bronze.t"
    assert answer(wildly, once) == [{"n": EVENTS, "offsets": EVENTS}]


@pytest.mark.parametrize("more", [["--continuous", "--interval", "1s"], []])
def test_a_run_whose_java_is_killed_ends_and_says_so(tmp_path: Path, more: list[str]) -> None:
    options, records = lake(tmp_path, 1), list(events(1, EVENTS))
    for number in range(EVENTS // PER_FILE):
        drop(tmp_path, number, records[number * PER_FILE : (number + 1) * PER_FILE])
    bronze = tmp_path / "lake" / "bronze" / "t" / "_delta_log"
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(command("run", options, *more), stdout=said, stderr=said)
        while not bronze.exists() and run.poll() is None:
            time.sleep(0.1)
        found = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, check=True)
        os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
        assert run.wait(60) == 2
    text = (tmp_path / "said").read_text()
    assert "found:    its Java has ended" in text and "driver_memory" in text, text
    succeeds("run", options)
    succeeds("verify", options, "t")
