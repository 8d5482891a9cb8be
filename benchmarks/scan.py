"""What a reader of gold pays: full scans and look-ups, beside a plain table of the same rows.

The lake has taken its first load and two batches, so there are tombstones and deletion vectors; the
plain table has just been written from what gold shows.
"""

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import ours
from benchmarks.events import Workload, batches, key_columns, snapshot, write
from benchmarks.measure import Parts, Plan, Step, counted, in_turn
from benchmarks.result import Line
from gold.catalog import open_catalog

QUESTION = "Reading gold, against a plain Delta table of the same rows"
QUERIES = {
    "count and sum": "SELECT count(*), sum(total) FROM {rows}",
    "all columns": "SELECT count(struct(*)), max(hash(*)) FROM {rows}",
    "one key": "SELECT * FROM {rows} WHERE {key}",
}


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Every query on both, in turn."""
    ours.configure(root / "ours", ours.table_of(work))
    ours.drop(root / "ours", write(work, snapshot(work), root / "files", "first"))
    spark, target = ours.session(root / "ours")
    lake = ours.engine(spark, target)
    lake.load([])
    for at, part in enumerate(itertools.islice(batches(work), 2)):
        lake.apply(write(work, part, root / "files", f"batch-{at}"))
    open_catalog(spark, target, "SELECT * FROM gold.orders")
    plain = f"delta.`{root / 'plain'}`"
    spark.sql(f"CREATE TABLE {plain} USING delta AS SELECT * FROM gold.orders")
    turn = _steps(spark, work, {"gold": "gold.orders", "plain": plain})
    taken = in_turn([turn] * plan.most, plan)
    return [counted(name, runs) for name, runs in taken.items()]


def _steps(spark: SparkSession, work: Workload, tables: Mapping[str, str]) -> dict[str, Step]:
    key = spark.sql(f"SELECT * FROM {tables['gold']} LIMIT 1").first()
    names = [column.name for column in key_columns(work)]
    wanted = " AND ".join(f"{name} = {key[name]!r}" for name in names if key is not None)
    return {
        f"{query}: {name}": functools.partial(_asked, spark, text.format(rows=table, key=wanted))
        for query, text in QUERIES.items()
        for name, table in tables.items()
    }


def _asked(spark: SparkSession, query: str) -> Parts:
    spark.sql(query).collect()
    return {}
