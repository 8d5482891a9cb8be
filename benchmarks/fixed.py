"""What a run costs that has little or nothing to do, over many tables of a thousand rows.

The commands are processes of their own, from the shell's prompt and back to it; the rounds are
those of a session that lives on, as with `--continuous`.
"""

import functools
import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import ours
from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Parts, Plan, Step, counted, in_turn
from benchmarks.result import Line

QUESTION = "A run with little to do, over many tables"
ROWS, CHANGES = 1000, 100


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Commands and rounds, with nothing new and with 100 changes over all tables."""
    each = max(1, CHANGES // work.tables)
    small = work._replace(rows=ROWS, changes=each * 10)
    names = [f"t{at:02d}" for at in range(work.tables)]
    files = write(small, snapshot(small), root / "files", "first")
    ours.configure(root / "ours", *(ours.table_of(small, name) for name in names))
    _drop(root, names, files)
    spark, target = ours.session(root / "ours")
    lake = ours.engine(spark, target, goes_on=True)
    lake.load(files)
    stream = itertools.islice(batches(small), plan.most)
    later = [
        write(small, part[:each], root / "files", f"batch-{at}") for at, part in enumerate(stream)
    ]
    title = f"{each * work.tables:,} changes over {work.tables} tables"
    taken = in_turn([_steps(lake, root, names, batch, title) for batch in later], plan)
    return [counted(name, runs) for name, runs in taken.items()]


def _steps(
    lake: Engine, root: Path, names: Sequence[str], batch: Files, title: str
) -> dict[str, Step]:
    def changes() -> Parts:
        _drop(root, names, batch)
        return lake.load(batch)

    return {
        title: changes,
        "a round with nothing new": functools.partial(lake.load, batch),
        "lakehouse run with nothing new": functools.partial(_command, root, "run"),
        "lakehouse validate": functools.partial(_command, root, "validate"),
    }


def _command(root: Path, name: str) -> Parts:
    place = ["--conf", str(root / "ours" / "conf"), "--root", str(root / "ours")]
    command = [sys.executable, "-m", "lakehouse", name, *place]
    subprocess.run(command, check=True, capture_output=True)
    return {}


def _drop(root: Path, names: Sequence[str], files: Files) -> None:
    for name in names:
        ours.drop(root / "ours", files, name)
