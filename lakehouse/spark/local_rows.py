"""A few rows of this process as a DataFrame, without starting a Python worker for them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def local_rows(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: str) -> DataFrame:
    """The rows as a local relation; `schema` is a DDL string, a key that a row lacks is null.

    Values are what JSON can say, and times, which must be aware of their zone.
    """
    lines = _lines(spark, [json.dumps(dict(row), default=_iso) for row in rows])
    return lines.select(F.from_json("line", schema).alias("row")).select("row.*")


def _lines(spark: SparkSession, texts: Sequence[str]) -> DataFrame:
    """A column `line`; Spark Connect takes no Arrow table without rows."""
    if not texts:
        return spark.range(0).select(F.lit("").alias("line"))
    return spark.createDataFrame(pyarrow.table({"line": pyarrow.array(texts, pyarrow.string())}))


def _iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value).__name__}")


def as_text(number: int, beside: Column) -> Column:
    """The number as a bigint, the same for every row.

    Args:
        number: the number.
        beside: any text of the row; without it Spark would reckon the number before it writes the
            Java.
    """
    return F.concat_ws("", F.substring(beside, 1, 0), F.lit(str(number))).cast("bigint")
