"""The recipe of Delta's documentation for change data: newest change per key, then MERGE INTO.

It keeps the LSN beside each row, so that an older change does not overwrite a newer one; without
that it would be wrong on any late change. What it forgets is deletes: a change older than a delete
that has been applied brings the row back. With tombstones it keeps deleted rows, marked, and its
readers leave them out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.engine import Engine, Files
from benchmarks.events import Workload, columns, key_columns

AS_SPARK_COMES = {
    "spark.sql.shuffle.partitions": "200",
    "spark.databricks.delta.snapshotPartitions": "50",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "10",
}
BEST = {"delta.enableDeletionVectors": "true"}


def engine(
    spark: SparkSession, folder: Path, work: Workload, tuned: bool, tombstones: bool = False
) -> Engine:
    """The recipe in a session of its own.

    Plain has Spark's and Delta's own defaults; tuned has deletion vectors and few partitions.
    """
    own = spark.newSession()
    for key, value in ({} if tuned else AS_SPARK_COMES).items():
        own.conf.set(key, value)
    place = f"delta.`{folder}`"
    keys = [column.name for column in key_columns(work)]

    def load(files: Files) -> Mapping[str, float]:
        own.sql(create_sql(place, work, BEST if tuned else {}))
        if tombstones:
            own.sql(f"ALTER TABLE {place} ADD COLUMNS (gone boolean)")
        first = read(own, work, files)
        loaded = first.withColumn("gone", F.col("op") == "d") if tombstones else first
        loaded.drop("op").writeTo(place).append()
        return {}

    def apply(files: Files) -> Mapping[str, float]:
        newest(read(own, work, files), keys).createOrReplaceTempView("changes")
        merge = keeping_sql if tombstones else merge_sql
        own.sql(merge(place, keys, [column.name for column in columns(work)]))
        return {}

    def rows() -> pl.DataFrame:
        live = " WHERE NOT gone" if tombstones else ""
        return pl.DataFrame(own.sql(f"SELECT * FROM {place}{live}").drop("lsn", "gone").toArrow())

    name = "Delta recipe, tuned" if tuned else "Delta recipe"
    return Engine(f"{name}, tombstones" if tombstones else name, load, apply, rows)


def create_sql(place: str, work: Workload, properties: Mapping[str, str]) -> str:
    """The CREATE TABLE text: the workload's columns and the LSN."""
    listed = ", ".join(f"{column.name} {column.type}" for column in columns(work))
    given = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    tail = f" TBLPROPERTIES ({given})" if given else ""
    return f"CREATE TABLE {place} ({listed}, lsn bigint) USING delta{tail}"


def read(
    spark: SparkSession, work: Workload, files: Files, positions: Sequence[str] = ("lsn",)
) -> DataFrame:
    """The files' changes as flat rows: columns, positions, `op`; of a delete the key alone.

    `positions` are whole numbers of Debezium's `source` block.
    """
    after = ", ".join(f"{column.name}: {column.type}" for column in columns(work))
    before = ", ".join(f"{column.name}: {column.type}" for column in key_columns(work))
    source = ", ".join(f"{name}: BIGINT" for name in positions)
    schema = f"before STRUCT<{before}>, after STRUCT<{after}>, source STRUCT<{source}>, op STRING"
    found = spark.read.schema(schema).json([str(file) for file in files])
    keys = {column.name for column in key_columns(work)}
    return found.select(
        *[
            F.coalesce(f"after.{c.name}", f"before.{c.name}").alias(c.name)
            if c.name in keys
            else F.col(f"after.{c.name}").alias(c.name)
            for c in columns(work)
        ],
        *[F.col(f"source.{name}").alias(name) for name in positions],
        "op",
    )


def newest(changes: DataFrame, keys: list[str]) -> DataFrame:
    """The newest change of each key."""
    listed = ", ".join(keys)
    number = f"row_number() OVER (PARTITION BY {listed} ORDER BY lsn DESC)"
    return changes.withColumn("place", F.expr(number)).where("place = 1").drop("place")


def merge_sql(place: str, keys: list[str], names: list[str]) -> str:
    """The MERGE INTO text over the view `changes`."""
    on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    sets = ", ".join(f"t.{name} = s.{name}" for name in [*names, "lsn"])
    listed = ", ".join([*names, "lsn"])
    values = ", ".join(f"s.{name}" for name in [*names, "lsn"])
    return (
        f"MERGE INTO {place} t USING changes s ON {on}"
        " WHEN MATCHED AND s.op = 'd' AND s.lsn > t.lsn THEN DELETE"
        f" WHEN MATCHED AND s.lsn > t.lsn THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({listed}) VALUES ({values})"
    )


def keeping_sql(place: str, keys: list[str], names: list[str]) -> str:
    """The MERGE INTO text over the view `changes` that keeps a deleted row, marked `gone`."""
    on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    own = [*names, "lsn"]
    sets = ", ".join(f"{name} = s.{name}" for name in own)
    return (
        f"MERGE INTO {place} t USING changes s ON {on}"
        f" WHEN MATCHED AND s.lsn > t.lsn THEN UPDATE SET {sets}, gone = s.op = 'd'"
        f" WHEN NOT MATCHED THEN INSERT ({', '.join(own)}, gone)"
        f" VALUES ({', '.join(f's.{name}' for name in own)}, s.op = 'd')"
    )
