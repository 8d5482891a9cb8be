"""How long a batch of changes takes, from JSON files to the table a reader sees.

All engines live in one process and one Spark, each with its own table, and take their turn at every
batch. The result is compared with the truth row by row after the last one.
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

from benchmarks import delta_rs, iceberg, ours, recipe
from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Run, Step, in_turn, parts_of
from benchmarks.result import Line
from benchmarks.truth import truth, wrong

QUESTION = "A batch of changes, from JSON files to a right table"


def measure(work: Workload, root: Path, rounds: int, warm: int) -> list[Line]:
    """Every engine over the same changes."""
    first = snapshot(work)
    stream = list(itertools.islice(batches(work), warm + rounds))
    files = write(work, first, root / "files", "first")
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    competitors = engines(work, root, files)
    in_turn([{one.name: functools.partial(one.load, files) for one in competitors}], 1)
    taken = in_turn([_steps(competitors, batch) for batch in later], warm)
    right = truth(work, [first, *stream])
    counted = {one.name: wrong(work, right, one.rows()) for one in competitors}
    return [_line(name, runs, counted[name]) for name, runs in taken.items()]


def engines(work: Workload, root: Path, first: Files) -> list[Engine]:
    """This project, the documented recipe twice, delta-rs, and Iceberg if it is there."""
    ours.configure(root / "ours", ours.table_of(work))
    ours.drop(root / "ours", first)
    spark, target = ours.session(root / "ours")
    return [
        ours.engine(spark, target),
        recipe.engine(spark, root / "recipe", work, tuned=False),
        recipe.engine(spark, root / "tuned", work, tuned=True),
        delta_rs.engine(root / "delta_rs", work),
        *iceberg.engines(root / "iceberg", work),
    ]


def _steps(competitors: Sequence[Engine], batch: Files) -> dict[str, Step]:
    return {one.name: functools.partial(one.apply, batch) for one in competitors}


def _line(name: str, runs: Sequence[Run], wrong: int) -> Line:
    return Line(name, [round(run.seconds, 3) for run in runs], wrong, parts_of(runs))
