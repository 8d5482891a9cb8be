"""What a filter on gold reads: one percent of the range of a date column, in a clustered table.

The table takes its rows from a Parquet file and is maintained. Beside it stands a copy of silver's
table with neither order nor statistics, as every table was kept before version 0.3, read by the
same view. Beside the times stand the files that each query reads, of how many. A day without rows
is what a query costs that reads nothing.
"""

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

from benchmarks import ours
from benchmarks.events import Workload
from benchmarks.measure import Parts, Plan, counted, in_turn
from benchmarks.result import Line
from cdc_lakehouse.cli.work.maintain import tend_tables
from lakehouse.config.loading import load_tables
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.upkeep import STATISTICS
from lakehouse.storage.views import load_views
from silver.storage import layout

QUESTION = "A filter on a date column of gold: one percent of its range"
CLUSTERED, PLAIN, FILE = "gold, clustered", "as before 0.3", "rows.parquet"
DAYS, FIRST, LAST = 1000, "2024-01-01", "2024-01-10"
QUERIES = {
    "the range": f"placed_on BETWEEN DATE'{FIRST}' AND DATE'{LAST}'",
    "a day without rows": "placed_on = DATE'1999-01-01'",
    "one key": "id = 4711",
    "all": "true",
}
COLUMNS = {
    "id": "bigint", "version": "bigint", "placed_on": "date", "customer": "bigint",
    "total": "decimal(12,2)", "quantity": "int", "note": "string",
}  # fmt: skip


def title(work: Workload) -> str:
    """One line for a person."""
    return f"{work.rows:,} rows of {len(COLUMNS)} columns, 10 days of {DAYS:,}"


def measure(work: Workload, root: Path, plan: Plan) -> list[Line]:
    """Every query on both, in turn; both must answer alike."""
    spark, views = _loaded(work, root / "ours")
    asked = {
        f"{query}: {name}": f"SELECT count(*), sum(total), max(note) FROM {rows} WHERE {condition}"
        for query, condition in QUERIES.items()
        for name, rows in views.items()
    }
    for query in QUERIES:
        answers = [spark.sql(asked[f"{query}: {name}"]).collect() for name in views]
        assert answers[0] == answers[1], f"{query}: {answers}"
    for query, condition in QUERIES.items():
        for name, rows in views.items():
            read, of = (_files(spark, f"{rows} WHERE {c}") for c in (condition, "true"))
            print(f"  {query}: {name}: {read} of {of} files", flush=True)
    steps = {name: functools.partial(_asked, spark, text) for name, text in asked.items()}
    taken = in_turn([steps] * plan.most, plan)
    return [counted(name, runs) for name, runs in taken.items()]


def write_rows(work: Workload, folder: Path) -> None:
    """The rows as one Parquet file, in order of their keys; dates are in none."""
    folder.mkdir(parents=True, exist_ok=True)
    at = np.arange(work.rows)
    days = pl.Series(at * 7919 % DAYS).cast(pl.Int32)
    cents = pl.Series(at * 7 % 10_000_000)
    rows = pl.DataFrame({"id": at, "version": np.ones(work.rows, dtype=np.int64)}).with_columns(
        placed_on=pl.lit(FIRST).str.to_date() + pl.duration(days=days),
        customer=pl.col("id") * 31 % 50_000,
        total=(cents.cast(pl.Decimal(14, 2)) / 100).cast(pl.Decimal(12, 2)),
        quantity=(pl.col("id") % 97).cast(pl.Int32),
        note=pl.format("note {}", pl.col("id") * 131 % 999_983),
    )
    rows.write_parquet(folder / FILE)


def _loaded(work: Workload, root: Path) -> tuple[SparkSession, Mapping[str, str]]:
    """The session, and what the queries select from, by name."""
    source = {"format": "rows", "path": "orders", "file_format": "parquet"}
    given = {"table": "orders", "source": source, "keys": ["id"], "sequence_by": "version"}
    ours.configure(root, given | {"columns": COLUMNS, "cluster_by": ["placed_on"]})
    write_rows(work, root / "landing" / "orders")
    spark, target = ours.session(root, open_ended=True)
    ours.engine(Lake(spark, target)).load([])
    name, plain = names.table_name(target, "silver", "orders"), f"delta.`{root / 'plain'}`"
    own = layout.PROPERTIES | layout.OF_UPDATED_TABLES | {STATISTICS: "_batch"}
    parts = 2 * (os.cpu_count() or 1)
    spark.sql(
        f"CREATE TABLE {plain} USING delta TBLPROPERTIES {names.render_properties(own)}"
        f" AS SELECT /*+ REPARTITION({parts}, id) */ * FROM {name}"
    )
    tend_tables(Lake(spark, target), load_tables(root / "conf"), False, print, shared=False)
    shown = load_views(target, "gold")["orders"].query
    return spark, {PLAIN: f"({shown.replace(name, plain)})", CLUSTERED: f"({shown})"}


def _files(spark: SparkSession, rows: str) -> int:
    return len(spark.sql(f"SELECT * FROM {rows}").inputFiles())


def _asked(spark: SparkSession, query: str) -> Parts:
    spark.sql(query).collect()
    return {}
