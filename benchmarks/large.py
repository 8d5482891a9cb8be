"""One table that is large and wide, with little memory: a first load, and batches after it.

This project alone, and keys that are numbers. The files come to bronze a few at a time. One row in
twenty is compared with the truth, and the number of all.
"""

import functools
import itertools
import os
from pathlib import Path

import polars as pl

from benchmarks import ours
from benchmarks.events import Workload, batches, snapshot, write
from benchmarks.measure import Parts, Plan, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import living, truth, wrong
from gold.views.catalog import open_catalog

QUESTION = "A large and wide table in a driver of 4 GB"
FILES_AT_ONCE, ONE_IN = 10, 20


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """The first load and the batches after it; says what memory Java took at most."""
    if work.keys != "number":
        raise SystemExit("large: the rows that are compared are chosen by number: --keys number")
    first, stream = snapshot(work), list(itertools.islice(batches(work), plan.most))
    ours.configure(root / "ours", ours.table_of(work, max_files_per_trigger=FILES_AT_ONCE))
    ours.drop(root / "ours", write(work, first, root / "files", "first"))
    spark, target = ours.session(root / "ours", open_ended=True)
    lake = ours.engine(spark, target)

    def apply(part: pl.DataFrame, name: str) -> Parts:
        return lake.apply(write(work, part, root / "files", name))

    loads = in_turn([{"first load": functools.partial(lake.load, [])}], Plan(1, 0, 0))
    title = f"a batch of {work.changes:,}"
    steps = [{title: functools.partial(apply, part, f"b{at}")} for at, part in enumerate(stream)]
    taken = loads | in_turn(steps, plan)
    print(f"  Java: {_peak():.1f} GiB of memory at most", flush=True)
    open_catalog(spark, target, "gold.orders")
    arrived = [first, *stream[: plan.warm + len(taken[title])]]
    few = spark.sql(f"SELECT * FROM gold.orders WHERE id % {ONE_IN} = 0").toArrow()
    right = truth(work, [part.filter(pl.col("row") % ONE_IN == 0) for part in arrived])
    missed = wrong(work, right, pl.DataFrame(few))
    every = living(arrived).height
    missed += abs(spark.table("gold.orders").count() - every)
    print(f"  {right.height:,} of {every:,} rows compared", flush=True)
    return [counted(name, runs, missed) for name, runs in taken.items()]


def _peak() -> float:
    """GiB: the sum of what each of the processes that this one started held at most."""
    found = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        told = dict(line.split(":", 1) for line in status.read_text().splitlines())
        if told["PPid"].strip() == str(os.getpid()):
            found += int(told.get("VmHWM", "0 kB").split()[0])
    return found / (1 << 20)
