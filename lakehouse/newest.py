"""How far tables are that count their batches."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Row, SparkSession

from lakehouse import names
from lakehouse.target import Layer, Target

AT_ONCE = 4
"""Queries. What Delta does for a table that it has not met yet is one thread's work."""


def newest_batches(
    spark: SparkSession, target: Target, layer: Layer, tables: Iterable[str]
) -> dict[str, int]:
    """The highest `_batch` of each of the tables that exist, 0 without a row: a few queries."""
    parts = [
        f"SELECT {names.literal(table)} AS name, max(_batch) AS newest"
        f" FROM {names.name(target, layer, table)}"
        for table in sorted(tables)
        if names.exists(spark, target, layer, table)
    ]
    queries = [" UNION ALL ".join(parts[at::AT_ONCE]) for at in range(min(AT_ONCE, len(parts)))]

    def answer(query: str) -> list[Row]:
        return spark.sql(query).collect()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = [row for answered in pool.map(answer, queries) for row in answered]
    return {row["name"]: int(row["newest"] or 0) for row in rows}
