"""Kill -9 of `lakehouse run` at random moments while events flow: nothing lost, nothing twice."""

import os
import random
import shutil
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
ONCE = "SELECT count(*) AS records, count(DISTINCT _offset) AS offsets FROM bronze.t"


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scd", "number", "times"),
    [
        (1, EVENTS, KILLS),
        (2, EVENTS, KILLS),
    ],
)
def test_runs_that_are_killed_end_as_an_undisturbed_one(
    tmp_path: Path, scd: int, number: int, times: int
) -> None:
    chance = random.Random(scd)
    records = list(events(scd, number))
    files = [records[at : at + PER_FILE] for at in range(0, number, PER_FILE)]
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    calmly, wildly = lake(calm, scd), lake(wild, scd)
    for at, part in enumerate(files):
        drop(calm, at, part)
    began = time.monotonic()
    succeeds("run", calmly)
    lasts = time.monotonic() - began
    kills, dropped = 0, 0
    while kills < times:
        for at in range(dropped, len(files) * (kills + 1) // times):
            drop(wild, at, files[at])
            dropped = at + 1
        killed = killed_after(chance.uniform(0.2, 1.0) * lasts, wildly)
        kills += killed
        if not killed:
            # A run that had nothing left to do would be over before any kill.
            # Its Java may still remove its own files.
            while (wild / "lake").exists():
                shutil.rmtree(wild / "lake", ignore_errors=True)
    succeeds("run", wildly)
    view = "gold.t" if scd == 1 else "gold.t_history"
    query = f"SELECT t.*, b.* FROM {view} t CROSS JOIN ({ONCE}) b ORDER BY ALL"
    shown = answer(wildly, query)
    assert shown == answer(calmly, query)
    assert {(row["records"], row["offsets"]) for row in shown} == {(number, number)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [[], ["--continuous", "--interval", "1s"]], ids=["once", "continuous"]
)
def test_a_run_whose_java_is_killed_ends_and_says_so(tmp_path: Path, more: list[str]) -> None:
    options = lake(tmp_path, 1)
    drop(tmp_path, 1, list(events(1, PER_FILE)))
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


@pytest.mark.slow
def test_ctrl_c_while_silver_works_is_told_in_three_lines(tmp_path: Path) -> None:
    """Silver is in the midst of a call to Java, which writes its log or its table."""
    options, records = lake(tmp_path, 1), list(events(1, 5 * PER_FILE))
    parts = records[: 3 * PER_FILE], records[3 * PER_FILE :]
    for at, (folder, part) in enumerate(zip(("t_changes", "t"), parts, strict=True)):
        drop(tmp_path, at, part)
        log = tmp_path / "lake" / "silver" / folder / "_delta_log"
        said, before = tmp_path / f"said{at}", len([*log.glob("*.json")])
        with said.open("w") as output:
            run = subprocess.Popen(command("run", options), stdout=output, stderr=output)
            while len([*log.glob("*.json")]) == before and run.poll() is None:
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130, said.read_text()
        *_, first, found, action = said.read_text().splitlines()
        assert first.startswith("error: interrupted during silver"), said.read_text()
        assert found.startswith("  found:    Ctrl-C") and action.startswith("  do:       run the")
        told = [line for line in said.read_text().splitlines()[:-3] if not line.endswith(" s)")]
        assert [line for line in told if not line.startswith("t  ")] == []
    succeeds("run", options)
    succeeds("verify", options, "t", "--all")
    (row,) = answer(options, ONCE)
    assert (row["records"], row["offsets"]) == (5 * PER_FILE, 5 * PER_FILE)
