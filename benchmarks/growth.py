"""How the time of a batch grows: with the table, with the batch, and with fewer processors.

This project alone, with the session of `--continuous`. Every point has a Java and a lake of its
own, one after the other, so that none starts with what another has warmed: a sixteenth, a quarter
and all of `--rows`; then at a quarter a hundredth and a tenth of `--changes`, one processor in
place of all, and one and two workers of a standalone cluster, each a process with one processor.
"""

import functools
import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks import ours
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Plan, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from tests.e2e.cluster import cluster

QUESTION = "How a batch's time grows"
ALONE = "1 processor"


class Point(NamedTuple):
    """A table's rows, a batch's changes, and what Spark works on."""

    rows: int
    changes: int
    on: str = ""
    workers: int = 0

    @property
    def title(self) -> str:
        """What stands in the result."""
        return f"{self.changes:,} into {self.rows:,}{self.on and ', '}{self.on}"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """A line for each point, in a process that ends with it."""
    quarter, lines = work.rows // 4, []
    points = [
        Point(work.rows // 16, work.changes),
        Point(quarter, work.changes),
        Point(work.rows, work.changes),
        Point(quarter, work.changes // 100),
        Point(quarter, work.changes // 10),
        Point(quarter, work.changes, ALONE),
        Point(quarter, work.changes, "1 worker", 1),
        Point(quarter, work.changes, "2 workers", 2),
    ]
    for at, point in enumerate(points):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
            lines.append(own.submit(_line, work, root / str(at), plan, point).result())
    return lines


def _line(work: Workload, root: Path, plan: Plan, point: Point) -> Line:
    if not point.workers:
        return _measured(work, root, plan, point, "local[1]" if point.on == ALONE else "local[*]")
    names = [f"worker-{at}" for at in range(point.workers)]
    with cluster(root, names, memory="2g") as master:
        return _measured(work, root, plan, point, master)


def _measured(work: Workload, root: Path, plan: Plan, point: Point, master: str) -> Line:
    work = work._replace(rows=point.rows, changes=point.changes)
    first, stream = snapshot(work), list(itertools.islice(batches(work), plan.most))
    files = write(work, first, root / "files", "first")
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    ours.configure(root / "ours", ours.table_of(work), master=master)
    ours.drop(root / "ours", files)
    lake = ours.engine(*ours.session(root / "ours", open_ended=True))
    loaded = in_turn([{"first load": functools.partial(lake.load, files)}], Plan(1, 0, 0))
    steps = [{point.title: functools.partial(lake.apply, batch)} for batch in later]
    runs = in_turn(steps, plan)[point.title]
    right = truth(work, [first, *stream[: plan.warm + len(runs)]])
    line = counted(point.title, runs, wrong(work, right, lake.rows()))
    load = round(loaded["first load"][0].seconds, 3)
    return line._replace(parts={**(line.parts or {}), "first load": load})
