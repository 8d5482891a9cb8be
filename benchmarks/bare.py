"""What Spark and Delta themselves take for small tables: the floor under a round of ours.

As many tables as ours, in as many threads, in the session of ours: an append to a log each, and a
MERGE of a few rows into a table of as many rows as ours each.
"""

import functools
import random
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Parts, Step
from silver.table_runs import AT_ONCE

_VALUES = {"a": "string", "b": "int", "c": "double", "d": "string", "e": "string", "f": "bigint"}
_OWN = {"_order": "binary", "_deleted": "boolean", "_digest": "bigint"}
_COLUMNS = {"id": "bigint", **_VALUES, **_OWN}
_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
_FILLED = {"a": "x", "b": 1, "c": 1.5, "d": "y", "e": "z", "f": 7, "_deleted": False, "_digest": 1}


def steps(
    spark: SparkSession, root: Path, tables: int, sizes: tuple[int, int]
) -> Mapping[str, Step]:
    """Makes the tables; `sizes` are the rows of each, and how many a step brings to each."""
    stored, came = sizes
    for at in range(tables):
        for kind in ("log", "current"):
            spark.sql(
                f"CREATE TABLE delta.`{root}/{kind}{at}` ({_SCHEMA}) USING delta"
                " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            )
        _save(_rows(spark, 0, stored), root / f"current{at}")

    def append(at: int) -> None:
        _save(_rows(spark, 0, came), root / f"log{at}")

    def merge(at: int) -> None:
        view = f"bare_{uuid.uuid4().hex}"
        _rows(spark, stored - came // 2, came).createOrReplaceTempView(view)
        changed = ", ".join(f"{name} = s.{name}" for name in (*_VALUES, *_OWN))
        spark.sql(
            f"MERGE INTO delta.`{root}/current{at}` t USING {view} s ON t.id = s.id"
            f" WHEN MATCHED THEN UPDATE SET {changed} WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    return {
        f"bare: {tables} appends": functools.partial(_all, append, tables),
        f"bare: {tables} MERGEs of {came} rows": functools.partial(_all, merge, tables),
    }


def _all(work: Callable[[int], None], tables: int) -> Parts:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(work, range(tables)))
    return {}


def _rows(spark: SparkSession, first: int, count: int) -> DataFrame:
    filled = [
        _FILLED | {"id": number, "_order": random.randbytes(24)}
        for number in range(first, first + count)
    ]
    rows = pa.table({name: [row[name] for row in filled] for name in _COLUMNS})
    return spark.createDataFrame(rows, _SCHEMA).coalesce(1)


def _save(rows: DataFrame, folder: Path) -> None:
    rows.write.format("delta").mode("append").save(str(folder))
