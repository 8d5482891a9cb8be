"""The snapshot compare of "Change Data Capture at Scale using Spark", as the article describes it.

MD5 of key and other columns, kept with the rows; a full outer join of the hashes alone with those
of the current object; then a stage per kind of row (new, missing, updated or unchanged) that joins
its rows with their values and writes them to the current object and to the day's history, both
Parquet. Incoming rows and the join are cached, because every stage reads them. The article casts
and hashes with the RDD API (`rows_by_rdd`); the same in Spark's own functions is the kinder reading
(`rows_by_functions`).
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from benchmarks.extracts import KEYS, VALUES

Hashed = Callable[[SparkSession, Path], DataFrame]
SCHEMA = ", ".join([*(f"{k} string" for k in KEYS), *(f"{v} bigint" for v in VALUES)])
_HASHES = ("keyhash", "nonkeyhash")


def rows_by_rdd(spark: SparkSession, folder: Path) -> DataFrame:
    """The extract cast and hashed row by row in Python."""
    texts = spark.read.option("header", "true").csv(str(folder)).rdd
    hashes = ", ".join(f"{name} string" for name in _HASHES)
    return spark.createDataFrame(texts.map(_hashed), f"{SCHEMA}, {hashes}")


def rows_by_functions(spark: SparkSession, folder: Path) -> DataFrame:
    """The extract cast and hashed by Spark's functions."""
    rows = spark.read.option("header", "true").schema(SCHEMA).csv(str(folder))
    return rows.withColumns({"keyhash": _md5(KEYS), "nonkeyhash": _md5(VALUES)})


def process(
    spark: SparkSession, hashed: Hashed, extract: Path, day: str, before: Path | None, after: Path
) -> None:
    """One day: the current object `before`, if there is one, becomes the one in `after`."""
    incoming = hashed(spark, extract).cache()
    if before is None:
        _write(_tagged(incoming, "I", day), after, day, "overwrite")
        incoming.unpersist()
        return
    current = spark.read.parquet(str(before / "current"))
    joined = _compared(incoming, current).cache()
    new = incoming.join(joined.where("old IS NULL"), "keyhash", "left_semi")
    _write(_tagged(new, "I", day), after, day, "overwrite")
    gone = current.join(joined.where("new IS NULL"), "keyhash", "left_semi")
    _write(_tagged(gone, "D", day), after, day, "append")
    both = incoming.join(joined.where("old IS NOT NULL AND new IS NOT NULL"), "keyhash")
    _write(_updated(both, day), after, day, "append")
    joined.unpersist()
    incoming.unpersist()


def _hashed(row: Row) -> tuple[object, ...]:
    keys, values = [row[k] for k in KEYS], [int(row[v]) for v in VALUES]
    return (*keys, *values, _digest(keys), _digest(values))


def _digest(values: Sequence[object]) -> str:
    return hashlib.md5(str(values).encode(), usedforsecurity=False).hexdigest()


def _md5(names: Sequence[str]) -> Column:
    return F.md5(F.concat_ws("\x1f", *names))


def _compared(incoming: DataFrame, current: DataFrame) -> DataFrame:
    new = incoming.select("keyhash", F.col("nonkeyhash").alias("new"))
    live = current.where("operation <> 'D'")
    old = live.select("keyhash", F.col("nonkeyhash").alias("old"), F.col("start").alias("since"))
    return new.join(old, "keyhash", "full_outer")


def _tagged(rows: DataFrame, operation: str, day: str) -> DataFrame:
    return rows.withColumns({"operation": F.lit(operation), "start": F.lit(day)})


def _updated(rows: DataFrame, day: str) -> DataFrame:
    same = F.col("new") == F.col("old")
    operation = F.when(same, "N").otherwise("U")
    start = F.when(same, F.col("since")).otherwise(day)
    marked = rows.withColumns({"operation": operation, "start": start})
    return marked.drop("new", "old", "since")


def _write(rows: DataFrame, place: Path, day: str, mode: str) -> None:
    rows.write.mode(mode).parquet(str(place / "current"))
    rows.write.mode(mode).parquet(str(place / "history" / day))
