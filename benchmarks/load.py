"""The first load: every row of a source's snapshot into an empty lake.

The floor is Spark reading the same JSON and writing its columns as a Delta table, which keeps
neither the raw records nor a log, and puts nothing in order.
"""

import functools
from pathlib import Path

from benchmarks import ours, recipe
from benchmarks.engine import Engine
from benchmarks.events import Workload, snapshot, write
from benchmarks.measure import Plan, Step, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from lakehouse.storage.lake import Lake

QUESTION = "The first load of an empty lake"
FLOOR = "Spark reads JSON, writes Delta"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """This project and the floor, an empty lake and an empty table in every round."""
    first = snapshot(work)
    files = write(work, first, root / "files", "first")
    for at in range(plan.most):
        ours.configure(root / f"ours-{at}", ours.table_of(work))
        ours.drop(root / f"ours-{at}", files)
    spark, _ = ours.session(root / "ours-0")
    lakes = [ours.engine(Lake(spark, ours.target_at(root / f"ours-{n}"))) for n in range(plan.most)]
    floors = [recipe.engine(spark, root / f"floor-{n}", work, tuned=True) for n in range(plan.most)]
    steps = [_steps(lake, floor, files) for lake, floor in zip(lakes, floors, strict=True)]
    taken = in_turn(steps, plan)
    right, last = truth(work, [first]), plan.warm + len(taken[FLOOR]) - 1
    missed = [wrong(work, right, engine.rows()) for engine in (lakes[last], floors[last])]
    return [
        counted(name, runs, count)
        for (name, runs), count in zip(taken.items(), missed, strict=True)
    ]


def _steps(lake: Engine, floor: Engine, files: list[Path]) -> dict[str, Step]:
    return {
        lake.name: functools.partial(lake.load, files),
        FLOOR: functools.partial(floor.load, files),
    }
