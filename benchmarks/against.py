"""The same steps here and in another checkout, one after the other, in one sitting.

Each side works in its own processes, with its own interpreter (`.venv/bin/python`) and its own
modules. Both get the same configuration and the same files, made by this side, and take turns at
every step, so that noise falls on both alike. What counts is the ratio of the medians.
"""

import functools
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import polars as pl

from benchmarks import ours
from benchmarks.engine import Files
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.history import begun
from benchmarks.measure import Plan

HERE = Path(__file__).parents[1]
ROWS, EACH = 1000, 5
STEPS = ("load", "idle", "changes", "round", "demo")

# A session that lives on, as with --continuous: a line on its input is a round.
_SESSION = """
import sys, time
from pathlib import Path
from benchmarks import ours
spark, target = ours.session(Path(sys.argv[1]), open_ended=True)
lake = ours.engine(spark, target, goes_on=True)
for _ in sys.stdin:
    began = time.perf_counter()
    lake.load([])
    print("seconds", time.perf_counter() - began, flush=True)
"""

Taken: TypeAlias = dict[str, dict[str, list[float]]]


class Side(NamedTuple):
    """A checkout, and the folder in which it works."""

    name: str
    home: Path
    root: Path

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A process of the side's own Python."""
        command = [str(self.home / ".venv" / "bin" / "python"), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.home, text=True, stdin=pipe, stdout=pipe)

    def command(self, *arguments: str) -> float:
        """Seconds of a command of `lakehouse`, from the prompt back to it."""
        began = time.perf_counter()
        process = self.start("-m", "lakehouse", *arguments)
        process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
        return time.perf_counter() - began

    @contextmanager
    def session(self, root: Path) -> Iterator[Callable[[], float]]:
        """A session on a lake; each call is a round and gives its seconds."""
        with self.start("-c", _SESSION, str(root)) as process:
            to, told = process.stdin, process.stdout
            if to is None or told is None:
                raise RuntimeError("no pipes to the session")

            def take_round() -> float:
                print(file=to, flush=True)
                line = next((line for line in told if line.startswith("seconds ")), None)
                if line is None:
                    raise RuntimeError(f"{self.name}: the session on {root} has ended")
                return float(line.split()[1])

            yield take_round


class Sitting:
    """Takes the sides in turn at every step, and keeps the seconds of those rounds that count."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self.sides = list(sides)
        self.taken: Taken = {}

    def take(self, step: str, how: Mapping[str, Callable[[], float]], counts: bool = True) -> None:
        """A step of each side by its name; the side that began the last time begins no more."""
        self.sides.reverse()
        for side in self.sides:
            seconds = how[side.name]()
            note = "" if counts else " (warming up)"
            print(f"  {step}, {side.name}: {seconds:.2f} s{note}", flush=True)
            if counts:
                self.taken.setdefault(step, {}).setdefault(side.name, []).append(seconds)


def sitting(root: Path, other: Path) -> Sitting:
    """This checkout and the other, each with a folder below `root`."""
    here, there = Side("here", HERE, root / "here"), Side("there", other, root / "there")
    return Sitting([there, here])


def table(taken: Taken) -> str:
    """A line per step: each side's median and range, and this side's share of the other's."""
    head = "| | here | there | here / there |\n|---|---|---|---|"
    rows = [
        f"| {step} | {_shown(of['here'])} | {_shown(of['there'])}"
        f" | {statistics.median(of['here']) / statistics.median(of['there']):.3f} |"
        for step, of in taken.items()
    ]
    return "\n".join([head, *rows])


def _shown(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def measure_small(work: Workload, root: Path, plan: Plan, other: Path, steps: str) -> Taken:
    """Runs with little to do, over many tables of a thousand rows; the steps are in `STEPS`.

    The lake of a round is that of the last first load, which is there in every round of that step.
    """
    sides, names = sitting(root, other), [f"t{at:02d}" for at in range(work.tables)]
    lakes = _Lakes(work._replace(rows=ROWS, changes=EACH * 10), root, names, sides)

    def load(at: int) -> dict[str, Callable[[], float]]:
        lakes.make(at)
        return lakes.commands("run")

    def changes(_: int) -> dict[str, Callable[[], float]]:
        lakes.bring()
        return lakes.commands("run")

    def demo(at: int) -> dict[str, Callable[[], float]]:
        return {
            side.name: functools.partial(side.command, "demo", "--root", f"{side.root}/demo{at}")
            for side in sides.sides
        }

    def idle(_: int) -> dict[str, Callable[[], float]]:
        return lakes.commands("run")

    known = {"load": load, "idle": idle, "changes": changes, "demo": demo}
    todo = {step: known[step] for step in known if step in steps}
    if "load" not in steps:
        sides.take("load", load(0), counts=False)
    for at in range(plan.most):
        for step, commands in todo.items():
            sides.take(step, commands(at), at >= plan.warm)
    if "round" in steps:
        with lakes.sessions() as rounds:
            for at in range(-1, plan.rounds):
                lakes.bring()
                sides.take("round", rounds, at >= 0)
    return sides.taken


def measure_stream(
    work: Workload, root: Path, plan: Plan, other: Path, history: bool = False
) -> Taken:
    """Batches of changes in a session that lives on, into a table or (`history`) its versions."""
    first, stream = [snapshot(work)], batches(work)
    if history:
        work, first, stream = begun(work)
    sides = sitting(root, other)
    lakes = _Lakes(work, root, ["orders"], sides, first, stream)
    lakes.make(0, **({"stored_as_scd_type": 2} if history else {}))
    with lakes.sessions() as rounds:
        sides.take("first load", rounds)
        for at in range(plan.most):
            lakes.bring(work.changes)
            sides.take("a batch", rounds, at >= plan.warm)
    return sides.taken


class _Lakes:
    """A lake of each side with the same tables and the same files."""

    def __init__(
        self,
        work: Workload,
        root: Path,
        names: Sequence[str],
        sides: Sitting,
        first: Sequence[pl.DataFrame] | None = None,
        stream: Iterator[pl.DataFrame] | None = None,
    ) -> None:
        self._work, self._files, self._names, self._sides = work, root / "files", names, sides
        self._first = [
            file
            for at, part in enumerate(first or [snapshot(work)])
            for file in write(work, part, self._files, f"first-{at:04d}")
        ]
        self._stream = enumerate(stream or batches(work))
        self._roots: dict[str, Path] = {}

    def make(self, number: int, **options: object) -> None:
        """An empty lake of each side, with the first files dropped, in place of the last one."""
        for side in self._sides.sides:
            shutil.rmtree(self._roots.get(side.name, side.root / "none"), ignore_errors=True)
            root = self._roots[side.name] = side.root / f"lake{number}"
            tables = [ours.table_of(self._work, name) | options for name in self._names]
            ours.configure(root, *tables)
        self._drop(self._first)

    def bring(self, most: int = EACH) -> None:
        """Drops so many changes into each table's folder."""
        at, part = next(self._stream)
        self._drop(write(self._work, part[:most], self._files, f"batch-{at:04d}"))

    def commands(self, name: str) -> dict[str, Callable[[], float]]:
        """The command on each side's lake."""
        found: dict[str, Callable[[], float]] = {}
        for side in self._sides.sides:
            root = self._roots[side.name]
            place = ["--conf", str(root / "conf"), "--root", str(root)]
            found[side.name] = functools.partial(side.command, name, *place)
        return found

    @contextmanager
    def sessions(self) -> Iterator[dict[str, Callable[[], float]]]:
        """A session on each side's lake."""
        with ExitStack() as kept:
            yield {
                side.name: kept.enter_context(side.session(self._roots[side.name]))
                for side in self._sides.sides
            }

    def _drop(self, files: Files) -> None:
        for root in self._roots.values():
            for name in self._names:
                ours.drop(root, files, name)
