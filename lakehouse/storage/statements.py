"""SQL statements over a DataFrame, on a plan of any depth."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession

from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import quote

ROWS = "{rows}"
NOTE = "spark.databricks.delta.commitInfo.userMetadata"
"""Spark's setting of what a commit notes; a session of serverless compute refuses to be told."""


def inserting(columns: Iterable[str]) -> str:
    """`INSERT *` of a MERGE from the source `s`; Delta's star takes no name with a backtick."""
    names = [quote(column) for column in columns]
    return f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"


def updating(columns: Iterable[str]) -> str:
    """`UPDATE SET *` of a MERGE into `t` from the source `s`; the same holds of its star."""
    names = [quote(column) for column in columns]
    return f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}"


def execute(spark: SparkSession, text: str, rows: DataFrame) -> DataFrame:
    """Runs a statement in which `{rows}` stands for `rows`, and gives its result.

    The rows are a temporary view of a name used once: passed as an argument of `spark.sql`, a deep
    plan is more than Spark Connect's client takes.
    """
    view = f"_rows_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(view)
    try:
        return spark.sql(text.replace(ROWS, quote(view)))
    finally:
        spark.catalog.dropTempView(view)


@contextmanager
def told_session(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Has the session work by some settings meanwhile, as far as the session can be told."""
    told = []
    for name, value in settings.items():
        with suppress(*SPARK_FAILURES):
            spark.conf.set(name, value)
            told.append(name)
    try:
        yield
    finally:
        for name in told:
            spark.conf.unset(name)


def noting(spark: SparkSession, text: str) -> AbstractContextManager[None]:
    """Has the commits meanwhile note a text, where the session can be told."""
    return told_session(spark, {NOTE: text})
