"""A full extract compared with the one before: who is new, changed, unchanged or gone.

Against the method of the article that this is modelled on, which keeps a current object and a
partition of changes per day in Parquet, and keeps neither the raw rows nor any way to do a day
again.
"""

import functools
import itertools
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from benchmarks import article, ours
from benchmarks.engine import Engine
from benchmarks.events import Workload
from benchmarks.extracts import KEYS, VALUES, days, write
from benchmarks.measure import Parts, Plan, Step, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import wrong_rows
from lakehouse.storage.lake import Lake

QUESTION = "An extract compared with the day before"
BY_RDD, BY_FUNCTIONS = "the article's method", "the same, hashed by Spark's functions"
METHODS = {BY_RDD: article.rows_by_rdd, BY_FUNCTIONS: article.rows_by_functions}
TABLE = {
    "table": "extract",
    "source": {"format": "snapshot", "path": "extract", "mode": "full", "file_format": "csv"},
    "keys": KEYS,
    "columns": dict.fromkeys(KEYS, "string") | dict.fromkeys(VALUES, "bigint"),
}


def title(work: Workload) -> str:
    """What is compared: the extracts have columns of their own."""
    return f"{work.rows:,} rows, {len(KEYS)} columns of text for a key and {len(VALUES)} numbers"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Day after day; the first is the load, which is not counted."""
    count = 1 + plan.most
    folders = write(root / "files", work.rows, work.seed, count)
    ours.configure(root / "ours", TABLE)
    _land(root, folders[0], 0)
    spark, target = ours.session(root / "ours")
    lake = ours.engine(Lake(spark, target))
    turns = [_steps(spark, lake, root, folders, at) for at in range(count)]
    taken = in_turn(turns, plan._replace(warm=1 + plan.warm))
    at = plan.warm + len(taken[lake.name])
    last = next(itertools.islice(days(work.rows, work.seed), at, None))
    return [
        counted(name, runs, wrong_rows(KEYS, last, _rows(spark, lake, root, name, at)))
        for name, runs in taken.items()
    ]


def _steps(
    spark: SparkSession, lake: Engine, root: Path, folders: list[Path], at: int
) -> dict[str, Step]:
    def by_lake() -> Parts:
        if at:
            _land(root, folders[at], at)
        return lake.load([])

    def by_article(name: str) -> Parts:
        before = _place(root, name, at - 1) if at else None
        after = _place(root, name, at)
        article.process(spark, METHODS[name], folders[at], _day(at), before, after)
        return {}

    return {lake.name: by_lake} | {n: functools.partial(by_article, n) for n in METHODS}


def _land(root: Path, folder: Path, at: int) -> None:
    ours.drop(root / "ours", sorted(folder.iterdir()), f"extract/{_day(at)}")


def _day(at: int) -> str:
    return f"2026-01-{at + 1:02d}"


def _place(root: Path, name: str, at: int) -> Path:
    return root / "article" / str(list(METHODS).index(name)) / str(at)


def _rows(spark: SparkSession, lake: Engine, root: Path, name: str, at: int) -> pl.DataFrame:
    """The rows that the competitor shows as current."""
    if name == lake.name:
        found = lake.rows()
    else:
        current = spark.read.parquet(str(_place(root, name, at) / "current"))
        found = pl.DataFrame(current.where("operation <> 'D'").toArrow())
    return found.select(*KEYS, *(pl.col(value).cast(pl.Int64) for value in VALUES))
