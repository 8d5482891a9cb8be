"""What a filter on gold reads: one percent of the range of a date column, in a clustered table.

Two tables take the same rows from a Parquet file. One is clustered by the column and maintained;
the other has neither order nor statistics, as every table had before version 0.3. Beside the times
stand the files that each query reads, of how many.
"""

import functools
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

from benchmarks import ours
from benchmarks.events import Workload
from benchmarks.measure import Parts, Plan, counted, in_turn
from benchmarks.result import Line
from cdc_lakehouse.cli.work.maintain import tend
from gold.views.catalog import open_catalog
from lakehouse.config.loading import load_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.upkeep import STATISTICS

QUESTION = "A filter on a date column of gold: one percent of its range"
CLUSTERED, PLAIN, FILE = "clustered", "plain", "rows.parquet"
DAYS, FIRST, LAST = 1000, "2024-01-01", "2024-01-10"
QUERIES = {
    "the range": f"placed_on BETWEEN DATE'{FIRST}' AND DATE'{LAST}'",
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
    """Every query on both tables, in turn; both must answer alike."""
    spark = _loaded(work, root / "ours")
    steps = {
        f"{query}: {name}": functools.partial(_asked, spark, _text(name, condition))
        for query, condition in QUERIES.items()
        for name in (PLAIN, CLUSTERED)
    }
    for query, condition in QUERIES.items():
        answers = [spark.sql(_text(name, condition)).collect() for name in (PLAIN, CLUSTERED)]
        assert answers[0] == answers[1], f"{query}: {answers}"
        for name in (PLAIN, CLUSTERED):
            print(f"  {query}: {name}: {_files(spark, name, condition)}", flush=True)
    taken = in_turn([steps] * plan.most, plan)
    return [counted(name, runs) for name, runs in taken.items()]


def table_of(name: str, **options: object) -> dict[str, object]:
    """A table of rows from Parquet files."""
    source = {"format": "rows", "path": "orders", "file_format": "parquet"}
    given = {"table": name, "source": source, "keys": ["id"], "sequence_by": "version"}
    return given | {"columns": COLUMNS} | options


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


def _loaded(work: Workload, root: Path) -> SparkSession:
    ours.configure(root, table_of(PLAIN), table_of(CLUSTERED, cluster_by=["placed_on"]))
    write_rows(work, root / "landing" / "orders")
    spark, target = ours.session(root, open_ended=True)
    ours.engine(spark, target).load([])
    tables = load_tables(root / "conf")
    _forget_statistics(spark, target)
    tend(spark, target, _only(tables, CLUSTERED), False, print, shared=False)
    open_catalog(spark, target, f"gold.{PLAIN} gold.{CLUSTERED}")
    return spark


def _forget_statistics(spark: SparkSession, target: Target) -> None:
    """Has the plain table written anew without statistics."""
    name = names.name(target, "silver", PLAIN)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{STATISTICS}' = '_batch')")
    spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name}")


def _only(tables: list[Table], name: str) -> list[Table]:
    return [table for table in tables if table.table == name]


def _text(name: str, condition: str) -> str:
    return f"SELECT count(*), sum(total), max(note) FROM gold.{name} WHERE {condition}"


def _files(spark: SparkSession, name: str, condition: str) -> str:
    read, all_of = (
        len(spark.sql(f"SELECT * FROM gold.{name} WHERE {c}").inputFiles())
        for c in (condition, "true")
    )
    return f"{read} of {all_of} files"


def _asked(spark: SparkSession, query: str) -> Parts:
    spark.sql(query).collect()
    return {}
