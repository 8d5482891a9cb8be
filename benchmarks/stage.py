"""The write of the change log alone: processor time of the JVM and of its Python workers, a record.

Bronze has the records already; nothing is merged. Processor time is what Linux has counted for the
threads in which the JVM runs tasks (its compiler and garbage collector have others), and for the
Python processes below it. A first load is written to an empty log in every round; then batches in
disorder to the last one.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from benchmarks import ours
from benchmarks.engine import Files
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Plan
from benchmarks.result import Line
from cdc_lakehouse.cli.work.rounds import Round, do_layer
from lakehouse.config.loading import load_tables
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver.changelog import bronze_rows
from silver.changelog.extend import extend_log
from silver.run import Run, SilverTable, be_silent
from silver.state.table_state import TableState

QUESTION = "What the write of the change log costs a record"
_TICKS = os.sysconf("SC_CLK_TCK")
_OF_TASKS = "Executor task"


class Spent(NamedTuple):
    """Microseconds of processor time a record."""

    jvm: float
    workers: float


def title(work: Workload) -> str:
    """One line for a person: the figures are microseconds, not seconds."""
    return f"µs of processor time a record: {work.title}"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """The write of a first load, and of batches in disorder, after rounds that warm up."""
    first = write(work, snapshot(work), root / "files", "first")
    later = [
        write(work, changes, root / "files", f"batch-{at}")
        for at, changes in enumerate(islice(batches(work), plan.most))
    ]
    lakes = [root / f"lake-{at}" for at in range(plan.most)]
    for lake in lakes:
        ours.configure(lake, ours.table_of(work))
    spark, _ = ours.session(lakes[0], open_ended=True)  # the files come later
    loads = [next(_spend(spark, lake, [first])) for lake in lakes[:-1]]
    load, *rounds = _spend(spark, lakes[-1], [first, *later])
    return [*_lines("snapshot", [*loads, load], plan), *_lines("disorder", rounds, plan)]


def _lines(name: str, spent: list[Spent], plan: Plan) -> list[Line]:
    counted = spent[plan.warm :]
    sums = [one.jvm + one.workers for one in counted]
    given = {"": sums, ", JVM": [s.jvm for s in counted]}
    given[", Python workers"] = [s.workers for s in counted]
    return [Line(f"{name}{part}", [round(n, 2) for n in found]) for part, found in given.items()]


def _spend(spark: SparkSession, root: Path, drops: Sequence[Files]) -> Iterator[Spent]:
    """What it costs to take each drop, once it is in bronze, to the change log of a new lake."""
    target, tables = ours.target_at(root), load_tables(root / "conf")
    state, run, logged = TableState(), Run("stage", be_silent), 0
    for files in drops:
        ours.drop(root, files)
        do_layer(Round(Lake(spark, target), memory=Memory()), tables, "bronze", lambda _: None)
        table, done = (
            SilverTable(Lake(spark, target), tables[0]),
            {tables[0].table: state.positions},
        )
        feeds = bronze_rows.find_arrived(Lake(spark, target), tables, done)
        before = _read_clocks()
        state = extend_log(run, table, state, state.logged, feeds)
        after = _read_clocks()
        state = state.replace(batch=state.logged, waits=None)
        held, logged = logged, SilverTable(Lake(spark, target), tables[0]).log.read().count()
        spent = Spent(
            *((b - a) * 1e6 / (logged - held) for a, b in zip(before, after, strict=True))
        )
        print(
            f"  {logged - held:,} records: JVM {spent.jvm:.1f}, workers {spent.workers:.1f} µs",
            flush=True,
        )
        yield spent


def _read_clocks() -> tuple[float, float]:
    """Seconds of processor time of the JVM's threads for tasks, and of the processes below it."""
    processes = _read_processes()
    (jvm,) = [
        id for id, one in processes.items() if one.name == "java" and _is_below(id, processes)
    ]
    below = [one for id, one in processes.items() if id != jvm and _is_below(id, processes, jvm)]
    tasks = _read_processes(Path("/proc", str(jvm), "task"))
    in_tasks = sum(one.spent for one in tasks.values() if one.name.startswith(_OF_TASKS))
    return in_tasks, sum(one.spent + one.ended for one in below)


class _Process(NamedTuple):
    """A process: its parent, and the seconds that it and its ended children have taken."""

    name: str
    parent: int
    spent: float
    ended: float


def _read_processes(root: Path = Path("/proc")) -> dict[int, _Process]:
    """All processes, or with `/proc/ID/task` all threads of one."""
    processes = {}
    for folder in root.glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        spent, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        seconds = spent / _TICKS, ended / _TICKS
        processes[int(folder.name)] = _Process(name, int(fields[1]), *seconds)
    return processes


def _is_below(id: int, processes: Mapping[int, _Process], of: int | None = None) -> bool:
    top = os.getpid() if of is None else of
    while id in processes and id != top:
        id = processes[id].parent
    return id == top
