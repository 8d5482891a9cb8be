"""A lake that a live source feeds: its configuration, its commands, and parts that are killed."""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from cdc_lakehouse.cli.options import Chosen, load_chosen
from tests.conftest import REMOTE
from tests.e2e import parts
from tests.e2e.parts import ROOT, Process, wait_for

FULL = os.environ.get("LAKEHOUSE_LIVE") == "full"
CATCH_UP_SECONDS = 3600 if FULL else 300


class Killed:
    """A part that is killed with -9 and started again."""

    def __init__(self, start: Callable[[], Process]) -> None:
        self.start = start
        self.process = start()

    def again(self) -> None:
        self.process.kill()
        self.process = self.start()


def kill_at_random(killed: list[Killed], kills: int, until: threading.Thread) -> None:
    """Kill each part so often, at random moments while the writers write; and finish the rest."""
    chance = random.Random(7)
    for part in chance.sample(killed * kills, len(killed) * kills):
        if until.is_alive():
            time.sleep(chance.uniform(0.5, 3))
        part.again()


def project(root: Path, tables: Iterable[Mapping[str, object]] = ()) -> Path:
    """A configuration with these tables."""
    conf = root / "conf"
    (conf / "tables").mkdir(parents=True)
    (conf / "targets").mkdir()
    kind = f"connect\nremote: {REMOTE}" if REMOTE else "local\nmaster: local[2]"
    (conf / "targets" / "local.yml").write_text(f"kind: {kind}\nroot: .\n")
    for table in tables:
        (conf / "tables" / f"{table['table']}.yml").write_text(yaml.safe_dump(dict(table)))
    return conf


def lakehouse(
    conf: Path, root: Path, *arguments: str, ready: str = "", log: str = "run.log"
) -> Process:
    """One of lakehouse's commands."""
    command = [sys.executable, "-m", "lakehouse", *arguments, "--conf", conf, "--root", root]
    env = {"PYTHONPATH": str(ROOT)}
    return parts.start(command, root / log, ready, 300, env)


def run_on(conf: Path, root: Path) -> Process:
    """`lakehouse run`, which goes on until it is stopped."""
    return lakehouse(conf, root, "run", "--continuous", "--interval", "1s", ready="until")


def ends(conf: Path, root: Path, *arguments: str, codes: Sequence[int] = (0,)) -> Process:
    """One of lakehouse's commands, which ends with one of these codes."""
    process = lakehouse(conf, root, *arguments)
    assert process.popen.wait(CATCH_UP_SECONDS) in codes, process.said()[-3000:]
    return process


def arrives(folder: Path, mark: str, before: set[Path]) -> None:
    """Wait until a mark is in a file that was not there before."""

    def there() -> bool:
        return any(mark in file.read_text() for file in set(folder.glob("*.jsonl")) - before)

    wait_for(there, CATCH_UP_SECONDS, "a file with the last message")


def snapshots(capture: Process) -> int:
    """How many snapshots the connector has taken."""
    return capture.said().count("Snapshot completed")


def verified(conf: Path, root: Path, url: str, short: str) -> None:
    """`verify --source` finds no difference: in any table with a key, or in one for short."""
    _, tables = load_chosen(Chosen(conf=conf, root=str(root)), [])
    keyed = [table.table for table in tables if table.keys]
    for table in keyed if FULL else [short]:
        ends(conf, root, "verify", table, "--source", url, "--at-rest")
