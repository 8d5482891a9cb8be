"""`auto_cdc` beside the MERGE that people write: seconds of a batch, and rows that are wrong then.

All competitors work in one process and one Spark, with its own settings of a MERGE, on tables with
deletion vectors, and read the same JSON files. The result is compared with the truth row by row.
"""

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from benchmarks import delta_rs, ours, recipe
from benchmarks.apply import LOADS
from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, batches, columns, key_columns, snapshot, write
from benchmarks.measure import Plan, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from cdc_lakehouse import auto_cdc
from lakehouse.storage.names import quote

QUESTION = "A batch of changes through `auto_cdc`, from JSON files to a plain Delta table"
MATERIALIZE = "spark.databricks.delta.merge.materializeSource"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """The function and the recipes over the same changes."""
    first = snapshot(work)
    stream = list(itertools.islice(batches(work), plan.most))
    files = write(work, first, root / "files", "first")
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    ours.configure(root / "session")
    spark, _ = ours.session(root / "session", open_ended=True)
    spark.conf.unset(MATERIALIZE)
    all_of_them = [
        engine(spark, root / "auto_cdc", work),
        recipe.engine(spark, root / "tuned", work, tuned=True),
        recipe.engine(spark, root / "tombstones", work, tuned=True, tombstones=True),
        delta_rs.engine(root / "delta_rs", work),
    ]
    in_turn([{one.name: functools.partial(one.load, files) for one in all_of_them}], LOADS)
    steps = [{e.name: functools.partial(e.apply, batch) for e in all_of_them} for batch in later]
    taken = in_turn(steps, plan)
    right = truth(work, [first, *stream[: plan.warm + len(taken[all_of_them[0].name])]])
    missed = {one.name: wrong(work, right, one.rows()) for one in all_of_them}
    return [counted(name, runs, missed[name]) for name, runs in taken.items()]


def engine(spark: SparkSession, folder: Path, work: Workload) -> Engine:
    """`auto_cdc` into a target with deletion vectors, in a session of its own."""
    own, place = spark.newSession(), f"delta.{quote(str(folder))}"
    keys = [column.name for column in key_columns(work)]

    def load(files: Files) -> Mapping[str, float]:
        listed = ", ".join(f"{column.name} {column.type}" for column in columns(work))
        given = ", ".join(f"'{key}' = '{value}'" for key, value in recipe.BEST.items())
        own.sql(f"CREATE TABLE {place} ({listed}) USING delta TBLPROPERTIES ({given})")
        return apply(files)

    def apply(files: Files) -> Mapping[str, float]:
        auto_cdc(
            own,
            recipe.read(own, work, files),
            str(folder),
            keys,
            "lsn",
            apply_as_deletes="op = 'd'",
            except_column_list=["lsn", "op"],
        )
        return {}

    def rows() -> pl.DataFrame:
        return pl.DataFrame(own.table(place).toArrow())

    return Engine("auto_cdc", load, apply, rows)
