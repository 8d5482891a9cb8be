"""How a continuous run fares among many tables: the busy ones alone, and beside idle ones.

A tenth of the tables is busy: each of its rounds brings a few changes to every one of them. Either
lake has a process, a Java and a session of its own; the lakes take turns at every round. Beside the
times stands the memory that each process and its Java hold after the first round and the last one.
"""

import functools
import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks import ours
from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Parts, Plan, Step, counted, in_turn
from benchmarks.result import Line
from lakehouse.storage.lake import Lake

QUESTION = "Rounds of a continuous run among many tables"
ROWS, EACH, BUSY = 1000, 5, 10

_LAKES: list[Engine] = []  # The lake of a process, once it is open.


def title(work: Workload) -> str:
    """One line for a person."""
    return f"{work.tables} tables of {ROWS:,} rows, {work.tables // BUSY} of them busy"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Rounds with changes and rounds with nothing new, on both lakes in turn."""
    small = work._replace(rows=ROWS, changes=EACH * 10)
    busy = [f"t{at:03d}" for at in range(work.tables // BUSY)]
    sizes = {"alone": len(busy), f"among {work.tables}": work.tables}
    first = write(small, snapshot(small), root / "files", "first")
    stream = itertools.islice(batches(small), plan.most)
    later = [
        write(small, part[:EACH], root / "files", f"batch-{at}") for at, part in enumerate(stream)
    ]
    own = {name: ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) for name in sizes}
    for name, size in sizes.items():
        tables = [f"t{at:03d}" for at in range(size)]
        own[name].submit(_open, small, root / name, tables, first).result()
    turns: list[dict[str, Step]] = [
        {
            f"{what}: {name}": functools.partial(_take, own[name], root / name, tables, batch)
            for what, tables in {"changes": busy, "idle": []}.items()
            for name in sizes
        }
        for batch in later
    ]
    held = [{name: lake.submit(_memory).result() for name, lake in own.items()}]
    taken = in_turn(turns, plan)
    held.append({name: lake.submit(_memory).result() for name, lake in own.items()})
    for name in sizes:
        print(f"  memory, {name}: {held[0][name]:.2f} GiB, at the end {held[1][name]:.2f} GiB")
    for lake in own.values():
        lake.shutdown()
    return [counted(name, runs) for name, runs in taken.items()]


def _open(work: Workload, root: Path, tables: list[str], files: Files) -> None:
    ours.configure(root, *(ours.table_of(work, table) for table in tables))
    _drop(root, tables, files)
    _LAKES.append(ours.engine(Lake(*ours.session(root, open_ended=True)), goes_on=True))
    _round()


def _take(lake: ProcessPoolExecutor, root: Path, tables: list[str], files: Files) -> Parts:
    _drop(root, tables, files)
    return lake.submit(_round).result()


def _round() -> Parts:
    _LAKES[0].load([])
    return {}


def _drop(root: Path, tables: list[str], files: Files) -> None:
    for table in tables:
        ours.drop(root, files, table)


def _memory() -> float:
    """GiB that this process and those below it hold."""
    pages = 0
    waiting = ["self"]
    while waiting:
        process = Path("/proc", waiting.pop())
        pages += int((process / "statm").read_text().split()[1])
        for task in (process / "task").iterdir():
            waiting += (task / "children").read_text().split()
    return pages * 4096 / 2**30
