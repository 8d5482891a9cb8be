"""The recipe of Delta's documentation for SCD type 2: a MERGE with two staged rows per change.

The newest change of each key is staged under its key, which closes the current version, or inserts
the first version of a new key. Where there is a current version to close, the change is staged once
more under a null key, which matches no row, so that the MERGE inserts the new version.

As the documentation has it, only current versions are matched. The LSN beside each version keeps a
late change from closing a newer one. The recipe still gives wrong versions: of several changes of
one key in a batch only the newest makes a version, a late change does not split the version that it
belongs into, and a change older than an applied delete brings the row back.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import recipe
from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, columns, key_columns

NAME = "Delta SCD 2 recipe, tuned"
_BOUNDS = ("valid_from", "valid_to")


def engine(spark: SparkSession, folder: Path, work: Workload) -> Engine:
    """The recipe in a session of its own, with deletion vectors and the lake's few partitions.

    `rows` are all versions. The first load is not part of the recipe: it writes every version that
    its changes make, so that the rounds begin with a right history.
    """
    own = spark.newSession()
    place = f"delta.`{folder}`"
    keys = [column.name for column in key_columns(work)]
    names = [column.name for column in columns(work)]

    def load(files: Files) -> Mapping[str, float]:
        own.sql(create_sql(place, work))
        read(own, work, files).createOrReplaceTempView("loaded")
        own.sql(f"INSERT INTO {place} {load_sql(keys, names)}")
        return {}

    def apply(files: Files) -> Mapping[str, float]:
        recipe.newest(read(own, work, files), keys).createOrReplaceTempView("changes")
        own.sql(staged_sql(place, keys)).createOrReplaceTempView("staged")
        own.sql(merge_sql(place, keys, names))
        return {}

    def rows() -> pl.DataFrame:
        return pl.DataFrame(own.sql(f"SELECT * FROM {place}").drop("lsn", "is_current").toArrow())

    return Engine(NAME, load, apply, rows)


def create_sql(place: str, work: Workload) -> str:
    """The CREATE TABLE text: the workload's columns, the bounds of a version and its LSN."""
    listed = ", ".join(f"{column.name} {column.type}" for column in columns(work))
    bounds = ", ".join(f"{name} timestamp" for name in _BOUNDS)
    given = ", ".join(f"'{key}' = '{value}'" for key, value in recipe.BEST.items())
    return (
        f"CREATE TABLE {place} ({listed}, lsn bigint, {bounds}, is_current boolean)"
        f" USING delta TBLPROPERTIES ({given})"
    )


def read(spark: SparkSession, work: Workload, files: Files) -> DataFrame:
    """The files' changes as flat rows: columns, `lsn`, `op`, and `at`, when each was committed."""
    flat = recipe.read(spark, work, files, ("lsn", "ts_us"))
    return flat.withColumn("at", F.timestamp_micros("ts_us")).drop("ts_us")


def load_sql(keys: Sequence[str], names: Sequence[str]) -> str:
    """The query of all versions that the view `loaded` makes; it may have a change twice."""
    by_key = f"PARTITION BY {', '.join(keys)} ORDER BY lsn"
    follow = f"SELECT *, lead(at) OVER ({by_key}) AS next FROM (SELECT DISTINCT * FROM loaded)"
    listed = ", ".join([*names, "lsn"])
    return f"SELECT {listed}, at, next, next IS NULL FROM ({follow}) WHERE op <> 'd'"


def staged_sql(place: str, keys: Sequence[str]) -> str:
    """The query of the staged rows: each change by its key, updates by a null key as well."""
    null_keys = ", ".join(f"NULL AS merge_{key}" for key in keys)
    own_keys = ", ".join(f"c.{key} AS merge_{key}" for key in keys)
    same = " AND ".join(f"c.{key} = t.{key}" for key in keys)
    return (
        f"SELECT {null_keys}, c.* FROM changes c JOIN {place} t ON {same}"
        " WHERE t.is_current AND c.lsn > t.lsn AND c.op <> 'd'"
        f" UNION ALL SELECT {own_keys}, c.* FROM changes c"
    )


def merge_sql(place: str, keys: Sequence[str], names: Sequence[str]) -> str:
    """The MERGE INTO text over the view `staged`."""
    same = " AND ".join(f"t.{key} = s.merge_{key}" for key in keys)
    listed = ", ".join([*names, "lsn", *_BOUNDS, "is_current"])
    values = ", ".join([*(f"s.{name}" for name in [*names, "lsn"]), "s.at, NULL, true"])
    return (
        f"MERGE INTO {place} t USING staged s ON {same} AND t.is_current"
        " WHEN MATCHED AND s.lsn > t.lsn THEN UPDATE SET t.is_current = false, t.valid_to = s.at"
        f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({listed}) VALUES ({values})"
    )
