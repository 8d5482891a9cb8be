"""This project: the files are dropped, and one round of `lakehouse run` takes them to gold."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import yaml
from pyspark.sql import SparkSession

from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, columns, key_columns
from gold.catalog import open_catalog
from lakehouse.cli.rounds import JOBS
from lakehouse.cli.run import failed, one_round, raise_all
from lakehouse.loading import load_tables, load_target
from lakehouse.session import get_spark
from lakehouse.target import Target

TABLE = "orders"
TARGET = {"kind": "local", "root": ".", "master": "local[*]", "driver_memory": "4g"}


def configure(root: Path, work: Workload, **settings: object) -> None:
    """Writes the configuration: a target, and the workload's one table with its columns."""
    table = {
        "table": TABLE,
        "source": {"format": "debezium", "path": TABLE},
        "keys": [column.name for column in key_columns(work)],
        "columns": {column.name: column.type for column in columns(work)},
    }
    for name, document in {"targets/local": TARGET, f"tables/{TABLE}": table | settings}.items():
        file = root / "conf" / f"{name}.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(document))


def drop(root: Path, files: Files) -> None:
    """Puts the files where the lake looks for them."""
    folder = root / "landing" / TABLE
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.link(file, folder / file.name)


def session(root: Path) -> tuple[SparkSession, Target]:
    """Spark as the lake asks for it, by what lies in its landing folder; and its target."""
    target = target_at(root)
    return get_spark(target), target


def target_at(root: Path) -> Target:
    """The lake below a folder that `configure` has prepared."""
    return load_target(root / "conf", "local", str(root))


def engine(spark: SparkSession, target: Target) -> Engine:
    """The lake as one of the engines; its first load finds the files dropped already."""
    root = Path(str(target.root))
    tables = load_tables(root / "conf")

    def work(_: Files) -> Mapping[str, float]:
        with Path(root, "said.log").open("a") as said, contextlib.redirect_stdout(said):
            entries = one_round(spark, target, tables, list(JOBS))
        raise_all(failed(entries))
        return {entry.layer: entry.duration_ms / 1000 for entry in entries}

    def apply(files: Files) -> Mapping[str, float]:
        drop(root, files)
        return work(files)

    def rows() -> pl.DataFrame:
        query = f"SELECT * FROM gold.{TABLE}"
        open_catalog(spark, target, query)
        return pl.DataFrame(spark.sql(query).toArrow())

    return Engine("cdc-lakehouse", work, apply, rows)
