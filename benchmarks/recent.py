"""How the time of a batch of recent changes grows with the table, beside the tuned recipe.

The keys grow, as numbers or time-ordered UUIDs do, and a share of the changes falls on the newest
of them; the others fall anywhere. The table is clustered by its key and was maintained once. A
tenth of the rows, then all of them, each in a Java of its own.
"""

import functools
import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks import ours, recipe
from benchmarks.apply import LOADS
from benchmarks.events import Workload, batches, key_columns, snapshot, write
from benchmarks.measure import Plan, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from cdc_lakehouse.cli.work.maintain import tend_tables
from lakehouse.config.loading import load_tables
from lakehouse.storage.lake import Lake

QUESTION = "A batch of changes to the newest rows, as the table grows"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Two lines for each size, in a process that ends with it."""
    lines = []
    for rows in (work.rows // 10, work.rows):
        sized = work._replace(rows=rows)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
            lines += own.submit(_lines, sized, root / str(rows), plan).result()
    return lines


def _lines(work: Workload, root: Path, plan: Plan) -> list[Line]:
    first, stream = snapshot(work), list(itertools.islice(batches(work), plan.most))
    files = write(work, first, root / "files", "first")
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    keys = [column.name for column in key_columns(work)]
    ours.configure(root / "ours", ours.table_of(work) | {"cluster_by": keys})
    ours.drop(root / "ours", files)
    spark, target = ours.session(root / "ours", open_ended=True)
    engines = [
        ours.engine(Lake(spark, target)),
        recipe.engine(spark, root / "tuned", work, tuned=True),
    ]
    in_turn([{one.name: functools.partial(one.load, files) for one in engines}], LOADS)
    tend_tables(
        Lake(spark, target), load_tables(root / "ours" / "conf"), False, print, shared=False
    )
    steps = [{e.name: functools.partial(e.apply, batch) for e in engines} for batch in later]
    taken = in_turn(steps, plan)
    right = truth(work, [first, *stream[: plan.warm + len(taken[engines[0].name])]])
    missed = {one.name: wrong(work, right, one.rows()) for one in engines}
    size = f"into {work.rows:,} rows"
    return [counted(f"{name}, {size}", runs, missed[name]) for name, runs in taken.items()]
