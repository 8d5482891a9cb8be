"""What a run costs that has little or nothing to do, over many tables of a thousand rows.

The commands are processes of their own, from the shell's prompt and back to it; the rounds are
those of a session that lives on, as with `--continuous`. Silver's Spark queries of the first load
and of the rounds with changes are counted, and divided by the number of tables. Between the rounds
the same session does the bare operations of Spark and Delta (`benchmarks.bare`).
"""

import functools
import itertools
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import bare, ours, queries
from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Parts, Plan, Step, counted, in_turn, timed
from benchmarks.result import Line
from lakehouse.storage.lake import Lake

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
    queries.keep_many()
    spark, target = ours.session(root / "ours")
    silver = SilverQueries(queries.Counter(spark).since_last, work.tables)
    lake = ours.engine(Lake(spark, target), goes_on=True, layer_done=silver.note)
    load = timed(functools.partial(lake.load, files))
    first = silver.per_table_run()
    stream = itertools.islice(batches(small), plan.most)
    later = [
        write(small, part[:each], root / "files", f"batch-{at}") for at, part in enumerate(stream)
    ]
    floor = bare.steps(spark, root / "bare", work.tables, (ROWS, each))
    title = f"{each * work.tables:,} changes over {work.tables} tables"
    told: list[Mapping[str, float]] = []

    def changes(batch: Files) -> Parts:
        _drop(root, names, batch)
        silver.per_table_run()  # Of a round with nothing new, which is not counted.
        parts = lake.load(batch)
        told.append(silver.per_table_run())
        return parts

    turns: list[dict[str, Step]] = [
        {title: functools.partial(changes, b), **floor, **_idle_steps(lake, root, b)} for b in later
    ]
    taken = in_turn(turns, plan)
    loaded = counted(f"first load of {work.tables} tables", [load])._replace(queries=first)
    return [
        *(
            counted(name, runs)._replace(queries=_means(told) if name == title else None)
            for name, runs in taken.items()
        ),
        loaded,
    ]


class SilverQueries:
    """Counts the Spark queries of the silver layer in a round of all tables.

    `since_last` gives the queries by kind since its last call.
    """

    def __init__(self, since_last: Callable[[], Mapping[str, int]], tables: int) -> None:
        self._since_last = since_last
        self._tables = tables
        self._sums = Counter[str]()

    def note(self, layer: str) -> None:
        """Called after each layer of a round: what was counted since the last call is its own."""
        since = self._since_last()
        if layer == "silver":
            self._sums.update(since)

    def per_table_run(self) -> dict[str, float]:
        """The queries of one run of one table, by kind, since the last call."""
        shares = {kind: count / self._tables for kind, count in self._sums.items()}
        self._sums.clear()
        return shares


def _means(counts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {kind: statistics.mean(each[kind] for each in counts) for kind in counts[0]}


def _idle_steps(lake: Engine, root: Path, batch: Files) -> dict[str, Step]:
    return {
        "a round with nothing new": functools.partial(lake.load, batch),
        "lakehouse run that merges the changes": functools.partial(_command, root, "run"),
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
