"""A lake with one table `t`: changes of it, dropped as files, and the commands that work on it."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE = """
table: t
source: {format: debezium, path: t}
keys: [id]
columns: {id: int, n: int, text: string}
stored_as_scd_type: %d
"""


def events(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """Inserts, updates and deletes of a few keys, in source order."""
    chance = random.Random(seed)
    live: set[int] = set()
    for at in range(number):
        key = chance.randrange(number // 10)
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
    """One file of changes, as a source drops it: written aside, then renamed."""
    place = root / "landing" / "t"
    place.mkdir(parents=True, exist_ok=True)
    unfinished = place / f".{number:04d}.jsonl"
    unfinished.write_text("".join(json.dumps(record) + "\n" for record in records))
    unfinished.rename(place / f"{number:04d}.jsonl")


def command(name: str, options: list[str], *more: str) -> list[str]:
    """The command line of one of lakehouse's commands."""
    return [sys.executable, "-m", "lakehouse", name, *more, *options]


def succeeds(name: str, options: list[str], *more: str) -> str:
    """What one of lakehouse's commands wrote; all it said where it fails, which it must not."""
    ran = subprocess.run(command(name, options, *more), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{name}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def answer(options: list[str], query: str) -> list[Any]:
    """The rows of a query."""
    asked = succeeds("sql", options, query, "--format", "json")
    return [json.loads(line) for line in asked.splitlines()]
