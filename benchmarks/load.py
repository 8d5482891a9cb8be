"""The first load: every row of a source's snapshot into an empty lake.

The floor is Spark reading the same JSON and writing its columns as a Delta table, which keeps
neither the raw records nor a log, and puts nothing in order.
"""

import functools
from pathlib import Path

from benchmarks import ours, recipe
from benchmarks.engine import Engine
from benchmarks.events import Workload, snapshot, write
from benchmarks.measure import Step, in_turn, parts_of
from benchmarks.result import Line
from benchmarks.truth import truth, wrong

QUESTION = "The first load of an empty lake"
FLOOR = "Spark reads JSON, writes Delta"


def measure(work: Workload, root: Path, rounds: int, warm: int) -> list[Line]:
    """This project and the floor, an empty lake and an empty table in every round."""
    first = snapshot(work)
    files = write(work, first, root / "files", "first")
    for at in range(warm + rounds):
        ours.configure(root / f"ours-{at}", ours.table_of(work))
        ours.drop(root / f"ours-{at}", files)
    spark, _ = ours.session(root / "ours-0")
    lakes = [ours.engine(spark, ours.target_at(root / f"ours-{n}")) for n in range(warm + rounds)]
    floors = [
        recipe.engine(spark, root / f"floor-{n}", work, tuned=True) for n in range(warm + rounds)
    ]
    steps = [_steps(lake, floor, files) for lake, floor in zip(lakes, floors, strict=True)]
    taken = in_turn(steps, warm)
    right = truth(work, [first])
    counted = [wrong(work, right, engine.rows()) for engine in (lakes[-1], floors[-1])]
    return [
        Line(name, [round(run.seconds, 3) for run in runs], count, parts_of(runs))
        for (name, runs), count in zip(taken.items(), counted, strict=True)
    ]


def _steps(lake: Engine, floor: Engine, files: list[Path]) -> dict[str, Step]:
    return {
        lake.name: functools.partial(lake.load, files),
        FLOOR: functools.partial(floor.load, files),
    }
