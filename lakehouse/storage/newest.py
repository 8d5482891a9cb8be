"""How far tables are that count their batches: their Delta logs tell, or else Spark."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Row, SparkSession

from lakehouse.config.target import Layer, Target
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_table_log

AT_ONCE = 4
"""Queries. What Delta does for a table that it has not met yet is one thread's work."""


def newest_batch(spark: SparkSession, target: Target, layer: Layer, table: str) -> int | None:
    """The highest `_batch` of a table, 0 without a row; None where the table is not there."""
    if not names.exists(spark, target, layer, table):
        return None
    logged = _logged(target, layer, table)
    if logged is not None:
        return logged
    return int(spark.sql(_query(target, layer, table)).collect()[0]["newest"] or 0)


def newest_batches(
    spark: SparkSession, target: Target, layer: Layer, tables: Iterable[str]
) -> dict[str, int | None]:
    """The newest batch of each existing table, in a few queries where no local log answers.

    None for a table that cannot be read: the caller that has to fail asks for that table alone.
    """
    there = [table for table in sorted(tables) if names.exists(spark, target, layer, table)]
    found = {table: _logged(target, layer, table) for table in there}
    parts = [_query(target, layer, table) for table in there if found[table] is None]
    queries = [" UNION ALL ".join(parts[at::AT_ONCE]) for at in range(min(AT_ONCE, len(parts)))]

    def answer(query: str) -> list[Row]:
        return spark.sql(query).collect()

    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            rows = [row for answered in pool.map(answer, queries) for row in answered]
    except SPARK_FAILURES:
        return {table: _alone(spark, target, layer, table) for table in there}
    return found | {row["name"]: int(row["newest"] or 0) for row in rows}


def _logged(target: Target, layer: Layer, table: str) -> int | None:
    """What the log of a table in a local folder tells; None where Spark is to be asked."""
    log = read_table_log(target, layer, table)
    return None if log is None else log.highest("_batch")


def _query(target: Target, layer: Layer, table: str) -> str:
    place = names.name(target, layer, table)
    return f"SELECT {names.literal(table)} AS name, max(_batch) AS newest FROM {place}"


def _alone(spark: SparkSession, target: Target, layer: Layer, table: str) -> int | None:
    try:
        return newest_batch(spark, target, layer, table)
    except SPARK_FAILURES:
        return None
