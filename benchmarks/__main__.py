"""The same work through this project and through its peers, one part per question.

    make bench [PARTS="apply load"]
    python -m benchmarks apply load [--rows 1000000] [--changes 100000] [--keep]

Every result is compared with the truth, and wrong rows are shown beside the time. With --keep the
result, its picture and its table in docs/benchmarks are written anew.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, get_args

from benchmarks import (
    against,
    apply,
    compare,
    fixed,
    formats,
    function,
    history,
    load,
    many,
    page,
    publish,
    recent,
    scan,
    skipping,
    stage,
    visible,
)
from benchmarks.events import Keys, Workload
from benchmarks.measure import Plan
from benchmarks.result import Line, Result, keep, machine, table
from benchmarks.right import table as right

Measure = Callable[[Workload, Path, Plan], list[Line]]


class Part(NamedTuple):
    """A question, how it is answered, and what is measured of a workload, in words."""

    question: str
    measure: Measure
    title: Callable[[Workload], str] = attrgetter("title")


PARTS = {
    "apply": Part(apply.QUESTION, apply.measure),
    "compare": Part(compare.QUESTION, compare.measure, compare.title),
    "fixed": Part(fixed.QUESTION, fixed.measure),
    "formats": Part(formats.QUESTION, formats.measure, formats.title),
    "function": Part(function.QUESTION, function.measure),
    "history": Part(history.QUESTION, history.measure, history.title),
    "load": Part(load.QUESTION, load.measure),
    "many": Part(many.QUESTION, many.measure, many.title),
    "publish": Part(publish.QUESTION, publish.measure),
    "recent": Part(recent.QUESTION, recent.measure),
    "scan": Part(scan.QUESTION, scan.measure),
    "skipping": Part(skipping.QUESTION, skipping.measure, skipping.title),
    "stage": Part(stage.QUESTION, stage.measure, stage.title),
    "visible": Part(visible.QUESTION, visible.measure),
}

RIGHT = "right"
"""The part that measures no seconds: which tools have the right rows."""


def main() -> None:
    """Measure the parts that the command line names."""
    parser = _parser()
    given = parser.parse_args()
    if given.against and not {*given.parts} <= {"fixed", "apply", "history"}:
        parser.error("--against measures the parts fixed, apply and history")
    if len(given.parts) > 1:
        sys.exit(_one_by_one(given.parts))
    if given.parts == [RIGHT]:
        _ask_who_is_right(given)
        return
    work = Workload(**{name: getattr(given, name) for name in Workload._fields})
    if given.against:
        print(against.table(_compared(given.parts[0], work, given)))
        return
    print(f"{given.parts[0]}: {PARTS[given.parts[0]].title(work)}", flush=True)
    result = _measured(given.parts[0], work, given)
    print(f"\n{table(result.lines)}\n\n{page.queries(result.lines)}", flush=True)
    if given.keep:
        keep(result)
        page.write()


def _ask_who_is_right(given: argparse.Namespace) -> None:
    """The table of who is right after the same small events."""
    root = Path(given.folder or tempfile.mkdtemp(prefix="benchmarks-")) / RIGHT
    shutil.rmtree(root, ignore_errors=True)
    try:
        right.main(f"{datetime.now(timezone.utc):%Y-%m-%d}", root, given.keep)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _compared(name: str, work: Workload, given: argparse.Namespace) -> against.Taken:
    """The part here and in another checkout, round by round in turn."""
    root = Path(given.folder or tempfile.mkdtemp(prefix="benchmarks-")) / f"{name}-against"
    shutil.rmtree(root, ignore_errors=True)
    plan, other = Plan(given.rounds, given.warm, given.seconds), given.against.absolute()
    try:
        if name == "fixed":
            return against.measure_small(work, root, plan, other, given.steps)
        return against.measure_stream(work, root, plan, other, history=name == "history")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _one_by_one(parts: Sequence[str]) -> int:
    """Each part in a process of its own, as a Spark session belongs to one lake."""
    options = [argument for argument in sys.argv[1:] if argument not in parts]
    commands = [[sys.executable, "-m", "benchmarks", part, *options] for part in parts]
    return max([subprocess.run(command, check=False).returncode for command in commands])


def _measured(name: str, work: Workload, given: argparse.Namespace) -> Result:
    part = PARTS[name]
    root = Path(given.folder or tempfile.mkdtemp(prefix="benchmarks-")) / name
    shutil.rmtree(root, ignore_errors=True)
    try:
        lines = part.measure(work, root, Plan(given.rounds, given.warm, given.seconds))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    kept = "-".join([name, *(given.name or "").split()])
    command = f"python -m benchmarks {shlex.join(_told(sys.argv[1:], given.folder))}"
    made = f"{datetime.now(timezone.utc):%Y-%m-%d}, {machine()}"
    return Result(kept, part.question, part.title(work), command, made, lines)


def _told(arguments: list[str], folder: Path | None) -> list[str]:
    """The arguments but for where the work was done and that it was kept."""
    left_out = {"--keep", "--folder", str(folder), f"--folder={folder}"}
    return [argument for argument in arguments if argument not in left_out]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=sorted([*PARTS, RIGHT]))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the first snapshot")
    parser.add_argument("--changes", type=int, default=100_000, help="in a batch")
    parser.add_argument("--width", type=int, default=7, help="columns of the table")
    parser.add_argument("--keys", choices=get_args(Keys), default="number")
    parser.add_argument("--hot", type=float, default=0.0, help="share of updates on 1 %% of keys")
    parser.add_argument("--recent", type=float, default=0.0, help="share of them on 5 %% newest")
    parser.add_argument("--in-order", action="store_true", help="no late, no repeated change")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", type=int, default=20, help="of the parts fixed, many")
    parser.add_argument("--rounds", type=int, default=3, help="that count")
    parser.add_argument("--warm", type=int, default=2, help="rounds before those that count")
    parser.add_argument("--seconds", type=float, default=3600.0, help="no round begins later")
    parser.add_argument("--against", type=Path, help="another checkout: fixed, apply, history")
    parser.add_argument("--steps", default=",".join(against.STEPS), help="of fixed --against")
    parser.add_argument("--folder", type=Path, help="where to work; emptied, and removed after it")
    parser.add_argument("--name", help="what is put behind the part's name in a kept result")
    parser.add_argument("--keep", action="store_true", help="write results/ and docs/benchmarks")
    return parser


if __name__ == "__main__":
    main()
