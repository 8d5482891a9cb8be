"""How long a batch of changes takes, from JSON files to the table a reader sees.

All engines live in one process and one Spark, each with its own table, and take their turn at every
batch. The result is compared with the truth row by row after the last one. This project works as
with `--continuous`: some rounds merge what several batches brought, so the mean counts; what still
waits at the end is read all the same, and merged on a line of its own.
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import delta_rs, iceberg, ours, recipe
from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Plan, Step, counted, in_turn, timed
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake

LOADS = Plan(rounds=0, warm=1, seconds=0)
LEFT = "cdc-lakehouse: merging what waits at the end"
QUESTION = "A batch of changes, from JSON files to a right table"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Every engine over the same changes."""
    first = snapshot(work)
    stream = list(itertools.islice(batches(work), plan.most))
    files = write(work, first, root / "files", "first")
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    spark, target = lake(work, root, files)
    competitors = engines(spark, target, work, root)
    in_turn([{one.name: functools.partial(one.load, files) for one in competitors}], LOADS)
    taken = in_turn([_steps(competitors, batch) for batch in later], plan)
    arrived = plan.warm + len(taken[competitors[0].name])
    right = truth(work, [first, *stream[:arrived]])
    missed = {one.name: wrong(work, right, one.rows()) for one in competitors}
    left = timed(functools.partial(ours.engine(Lake(spark, target)).load, []))
    lines = [counted(name, runs, missed[name]) for name, runs in taken.items()]
    return [*lines, counted(LEFT, [left])]


def lake(work: Workload, root: Path, first: Files) -> tuple[SparkSession, Target]:
    """This project's lake, which finds the first files when it is loaded."""
    ours.configure(root / "ours", ours.table_of(work))
    ours.drop(root / "ours", first)
    return ours.session(root / "ours", open_ended=True)


def engines(spark: SparkSession, target: Target, work: Workload, root: Path) -> list[Engine]:
    """This project, the documented recipe thrice, delta-rs twice, and Iceberg if it is there."""
    return [
        ours.engine(Lake(spark, target), goes_on=True),
        recipe.engine(spark, root / "recipe", work, tuned=False),
        recipe.engine(spark, root / "tuned", work, tuned=True),
        recipe.engine(spark, root / "tombstones", work, tuned=True, tombstones=True),
        delta_rs.engine(root / "delta_rs", work),
        delta_rs.engine(root / "delta_rs_tombstones", work, tombstones=True),
        *iceberg.engines(root / "iceberg", work),
    ]


def _steps(competitors: Sequence[Engine], batch: Files) -> dict[str, Step]:
    return {one.name: functools.partial(one.apply, batch) for one in competitors}
