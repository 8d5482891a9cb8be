"""How long a batch of changes takes into a history, which keeps every version of every row.

The history begins with about `--rows` versions: half of the rows' number are keys of the first
snapshot, and changes of them follow until there are enough versions. So about half of its versions
are closed. Then batches arrive, as in the part `apply`: from JSON files to the versions that a
reader sees. Beside this project the SCD type 2 recipe of Delta's documentation takes the same
batches; every version of both is compared with the truth after the last batch.
"""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from benchmarks import history_recipe, ours
from benchmarks.engine import Engine
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Plan, counted, in_turn, timed
from benchmarks.result import Line
from benchmarks.truth import true_versions, wrong_versions
from lakehouse.storage.lake import Lake

LOADS = Plan(rounds=0, warm=1, seconds=0)
LEFT = "cdc-lakehouse: merging what waits at the end"
QUESTION = "A batch of changes, from JSON files to a right history"


def title(work: Workload) -> str:
    """What is measured: the rows of the command line are versions."""
    return work.title.replace(" rows", " versions", 1)


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Both engines over the same changes."""
    work, past, stream = begun(work)
    later = list(itertools.islice(stream, plan.most))
    loaded = [
        file
        for at, part in enumerate(past)
        for file in write(work, part, root / "files", f"first-{at:04d}")
    ]
    files = [write(work, part, root / "files", f"later-{at:04d}") for at, part in enumerate(later)]
    ours.configure(root / "ours", ours.table_of(work) | {"stored_as_scd_type": 2})
    ours.drop(root / "ours", loaded)
    spark, target = ours.session(root / "ours", open_ended=True)
    both = engines(Lake(spark, target), root, work)
    in_turn([{one.name: functools.partial(one.load, loaded) for one in both}], LOADS)
    steps = [{one.name: functools.partial(one.apply, batch) for one in both} for batch in files]
    taken = in_turn(steps, plan)
    arrived = plan.warm + len(taken[both[0].name])
    right = true_versions(work, [*past, *later[:arrived]])
    print(f"  {right.height:,} versions are right", flush=True)
    missed = {one.name: wrong_versions(work, right, one.rows()) for one in both}
    left = timed(functools.partial(ours.engine(Lake(spark, target)).load, []))
    lines = [counted(name, runs, missed[name]) for name, runs in taken.items()]
    return [*lines, counted(LEFT, [left])]


def begun(work: Workload) -> tuple[Workload, list[pl.DataFrame], Iterator[pl.DataFrame]]:
    """The workload of the keys, changes that make the first versions, and the batches after them.

    The workload has half as many rows as the given one; the changes are its snapshot and as many
    whole batches as it takes to make at least the given number of versions.
    """
    keys = work._replace(rows=work.rows // 2)
    stream = batches(keys)
    past = [snapshot(keys)]
    versions = keys.rows
    while versions < work.rows:
        past.append(next(stream))
        made = past[-1].filter(pl.col("op") != "d")
        versions += made.unique(["row", "lsn"]).height
    return keys, past, stream


def engines(lake: Lake, root: Path, work: Workload) -> list[Engine]:
    """This project and the documented recipe, both with deletion vectors and few partitions."""
    return [
        ours.engine(lake, goes_on=True, view="orders_history"),
        history_recipe.engine(lake.spark, root / "recipe", work),
    ]
