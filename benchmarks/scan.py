"""What a reader of gold pays: full scans and look-ups, beside a plain table of the same rows.

The lake has taken its first load and two batches, so there are tombstones and deletion vectors; the
plain table has just been written from what gold shows. A second table of the lake has applied the
first batch only: the other one waits, as `max_staleness` lets it, and every read merges it. Then
`lakehouse maintain` purges the deletion vectors, and all is read again.
"""

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from benchmarks import ours
from benchmarks.events import Workload, batches, key_columns, snapshot, write
from benchmarks.measure import Parts, Plan, Step, counted, in_turn
from benchmarks.result import Line
from benchmarks.truth import truth, wrong
from cdc_lakehouse.cli.work.maintain import tend_tables
from cdc_lakehouse.cli.work.rounds import Round
from cdc_lakehouse.cli.work.run import one_round
from gold.views.catalog import open_catalog
from lakehouse.config.loading import load_tables
from lakehouse.storage.lake import Lake

QUESTION = "Reading gold, against a plain Delta table of the same rows"
APPLIED, WAITING = "orders", "waiting"
WAITS = "gold, a batch waits"
QUERIES = {
    "count and sum": "SELECT count(*), sum(total) FROM {rows}",
    "all columns": "SELECT count(struct(*)), max(hash(*)) FROM {rows}",
    "one key": "SELECT * FROM {rows} WHERE {key}",
}


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Every query on all three, in turn."""
    _configure(work, root, "0s")
    first, stream = snapshot(work), list(itertools.islice(batches(work), 2))
    files = write(work, first, root / "files", "first")
    later = [write(work, part, root / "files", f"batch-{at}") for at, part in enumerate(stream)]
    spark, target = ours.session(root / "ours", open_ended=True)
    for batch, promise in ((files, "0s"), (later[0], "0s"), (later[1], "1h")):
        _configure(work, root, promise)
        for table in (APPLIED, WAITING):
            ours.drop(root / "ours", batch, table)
        ours.engine(Lake(spark, target)).load([])
    _configure(work, root, "0s")
    one_round(Round(Lake(spark, target)), load_tables(root / "ours" / "conf"), ["gold"])
    tables = {"gold": f"gold.{APPLIED}", WAITS: f"gold.{WAITING}"}
    open_catalog(Lake(spark, target), " ".join(tables.values()))
    plain = f"delta.`{root / 'plain'}`"
    spark.sql(f"CREATE TABLE {plain} USING delta AS SELECT * FROM gold.{APPLIED}")
    tables |= {"plain": plain}
    taken = in_turn([_steps(spark, work, tables)] * plan.most, plan)
    tend_tables(
        Lake(spark, target),
        load_tables(root / "ours" / "conf"),
        False,
        lambda _: None,
        shared=False,
    )
    again = {f"{name}, maintained": tables[name] for name in ("gold", WAITS)}
    again["plain, again"] = plain
    taken |= in_turn([_steps(spark, work, again)] * plan.most, plan)
    tables |= again
    right = truth(work, [first, *stream])
    missed = {name: wrong(work, right, _rows(spark, table)) for name, table in tables.items()}
    return [counted(name, runs, missed[name.partition(": ")[2]]) for name, runs in taken.items()]


def _configure(work: Workload, root: Path, promise: str) -> None:
    tables = [ours.table_of(work, name) for name in (APPLIED, WAITING)]
    ours.configure(root / "ours", tables[0], tables[1] | {"max_staleness": promise})


def _steps(spark: SparkSession, work: Workload, tables: Mapping[str, str]) -> dict[str, Step]:
    key = spark.sql(f"SELECT * FROM gold.{APPLIED} LIMIT 1").first()
    names = [column.name for column in key_columns(work)]
    wanted = " AND ".join(f"{name} = {key[name]!r}" for name in names if key is not None)
    return {
        f"{query}: {name}": functools.partial(_asked, spark, text.format(rows=table, key=wanted))
        for query, text in QUERIES.items()
        for name, table in tables.items()
    }


def _rows(spark: SparkSession, table: str) -> pl.DataFrame:
    return pl.DataFrame(spark.sql(f"SELECT * FROM {table}").toArrow())


def _asked(spark: SparkSession, query: str) -> Parts:
    spark.sql(query).collect()
    return {}
