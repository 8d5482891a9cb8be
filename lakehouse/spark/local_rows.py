"""A few rows of this process as a DataFrame, without starting a Python worker for them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def local_rows(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: str) -> DataFrame:
    """The rows as a local relation; `schema` is a DDL string, missing keys are null.

    Values are JSON's, and times with a zone.
    """
    lines = _build_lines(spark, [json.dumps(dict(row), default=_to_iso) for row in rows])
    return lines.select(F.from_json("line", schema).alias("row")).select("row.*")


def _build_lines(spark: SparkSession, texts: Sequence[str]) -> DataFrame:
    """The texts as column `line`; Spark Connect refuses an Arrow table without rows."""
    if not texts:
        return spark.range(0).select(F.lit("").alias("line"))
    return spark.createDataFrame(pyarrow.table({"line": pyarrow.array(texts, pyarrow.string())}))


def _to_iso(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value).__name__}")


def as_text(number: int, beside: Column) -> Column:
    """The number as a bigint, the same for every row.

    `beside` is any text of the row: without it Spark would fold the number into its generated Java,
    and compile that again for each number.
    """
    return F.concat_ws("", F.substring(beside, 1, 0), F.lit(str(number))).cast("bigint")
