"""SQL statements over a DataFrame with a plan of any depth."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from pyspark.sql import DataFrame, SparkSession

from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import quote

ROWS = "{rows}"
NOTE = "spark.databricks.delta.commitInfo.userMetadata"
"""Spark's setting for a commit's `userMetadata`; sessions of serverless compute refuse it."""


def render_insert(columns: Iterable[str]) -> str:
    """`INSERT *` of a MERGE from the source `s`; Delta's star takes no name with a backtick."""
    names = [quote(column) for column in columns]
    return f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"


def render_update(columns: Iterable[str]) -> str:
    """`UPDATE SET *` of a MERGE into `t` from the source `s`, for the same reason."""
    names = [quote(column) for column in columns]
    return f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}"


def execute_with_rows(spark: SparkSession, text: str, rows: DataFrame) -> DataFrame:
    """Runs a statement in which `{rows}` stands for `rows`, and returns its result.

    The rows become a temporary view with a unique name: as an argument of `spark.sql`, a deep plan
    exceeds a limit of Spark Connect's client.
    """
    view = f"_rows_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(view)
    try:
        return spark.sql(text.replace(ROWS, quote(view)))
    finally:
        spark.catalog.dropTempView(view)


@contextmanager
def apply_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets the session's settings during the block; those that it refuses are left out."""
    applied = []
    for name, value in settings.items():
        with suppress(*SPARK_FAILURES):
            spark.conf.set(name, value)
            applied.append(name)
    try:
        yield
    finally:
        for name in applied:
            spark.conf.unset(name)


def note_commits(spark: SparkSession, text: str) -> AbstractContextManager[None]:
    """Adds a text to the `userMetadata` of commits in the block, if the session allows it."""
    return apply_settings(spark, {NOTE: text})
