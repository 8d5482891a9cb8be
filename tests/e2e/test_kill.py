"""Kill -9 of `lakehouse run` at random moments while events flow: nothing lost, nothing twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live

KILLS = int(os.environ.get("LAKEHOUSE_KILLS", "3"))
EVENTS = int(os.environ.get("LAKEHOUSE_KILL_EVENTS", "10000"))
PER_FILE = 1000
TABLE = """
table: t
source: {format: debezium, path: t}
keys: [id]
columns: {id: int, n: int, text: string}
stored_as_scd_type: %d
"""


def events(seed: int) -> Iterator[dict[str, Any]]:
    """Inserts, updates and deletes of a few keys, in source order."""
    chance = random.Random(seed)
    live: set[int] = set()
    for at in range(EVENTS):
        key = chance.randrange(EVENTS // 10)
        deletes = key in live and chance.random() < 0.2
        op = "d" if deletes else "u" if key in live else "c"
        live = live - {key} if deletes else live | {key}
        row = None if deletes else {"id": key, "n": at, "text": f"text {at}"}
        before = {"id": key, "n": 0, "text": ""} if deletes else None
        source = {"connector": "postgresql", "lsn": 1000 + at, "txId": at, "ts_us": 10**15 + at}
        yield {
            "topic": "t",
            "partition": 0,
            "offset": at,
            "key": {"id": key},
            "value": {"before": before, "after": row, "source": source, "op": op},
        }


def lake(root: Path, scd: int) -> list[str]:
    """The configuration of a lake with one table; returns the common options of its commands."""
    (root / "conf" / "tables").mkdir(parents=True)
    (root / "conf" / "targets").mkdir()
    (root / "conf" / "tables" / "t.yml").write_text(TABLE % scd)
    (root / "conf" / "targets" / "local.yml").write_text(f"kind: local\nroot: {root}\n")
    return ["--conf", str(root / "conf"), "--root", str(root)]


def drop(root: Path, number: int, records: list[dict[str, Any]]) -> None:
    place = root / "landing" / "t"
    place.mkdir(parents=True, exist_ok=True)
    unfinished = place / f".{number:04d}.jsonl"
    unfinished.write_text("".join(json.dumps(record) + "\n" for record in records))
    unfinished.rename(place / f"{number:04d}.jsonl")


def command(name: str, options: list[str], *more: str) -> list[str]:
    return [sys.executable, "-m", "lakehouse", name, *more, *options]


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


def answer(options: list[str], query: str) -> list[Any]:
    asked = command("sql", options, query, "--format", "json")
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def finish(options: list[str]) -> None:
    subprocess.run(command("run", options), check=True, capture_output=True)


@pytest.mark.parametrize("scd", [1, 2])
def test_runs_that_are_killed_end_as_an_undisturbed_one(tmp_path: Path, scd: int) -> None:
    chance = random.Random(scd)
    records = list(events(seed=scd))
    files = [records[at : at + PER_FILE] for at in range(0, EVENTS, PER_FILE)]
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    calmly, wildly = lake(calm, scd), lake(wild, scd)
    for number, part in enumerate(files):
        drop(calm, number, part)
    began = time.monotonic()
    finish(calmly)
    lasts = time.monotonic() - began
    kills, dropped = 0, 0
    while kills < KILLS:
        for number in range(dropped, len(files) * (kills + 1) // KILLS):
            drop(wild, number, files[number])
            dropped = number + 1
        kills += killed_after(chance.uniform(0.2, 1.0) * lasts, wildly)
    finish(wildly)
    view = "gold.t" if scd == 1 else "gold.t_history"
    query = f"SELECT * FROM {view} ORDER BY ALL"
    assert answer(wildly, query) == answer(calmly, query)
    once = "SELECT count(*) AS n, count(DISTINCT _offset) AS offsets FROM bronze.t"
    assert answer(wildly, once) == [{"n": EVENTS, "offsets": EVENTS}]


@pytest.mark.parametrize("more", [["--continuous", "--interval", "1s"], []])
def test_a_run_whose_java_is_killed_ends_and_says_so(tmp_path: Path, more: list[str]) -> None:
    options, records = lake(tmp_path, 1), list(events(seed=1))
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
    finish(options)
    subprocess.run(command("verify", options, "t"), check=True, capture_output=True)
