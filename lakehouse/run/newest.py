"""The newest batches of tables, from their Delta logs or else by Spark."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from lakehouse.config.target import Layer, Target
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.lake import Lake

AT_ONCE = 4
"""Parallel queries: loading a table that Delta has not cached uses one thread."""


def newest_batch(lake: Lake, layer: Layer, table: str) -> int | None:
    """The highest `_batch` of a table, 0 without a row; None if the table does not exist."""
    if not lake.exists(layer, table):
        return None
    logged = _read_logged_batch(lake.target, layer, table)
    if logged is not None:
        return logged
    return int(lake.spark.sql(_build_query(lake.target, layer, table)).collect()[0]["newest"] or 0)


def newest_batches(lake: Lake, layer: Layer, tables: Iterable[str]) -> dict[str, int | None]:
    """The newest batch of each existing table, from the logs or else in a few queries.

    None for a table that cannot be read; `newest_batch` raises for it.
    """
    there = [table for table in sorted(tables) if lake.exists(layer, table)]
    batches = {table: _read_logged_batch(lake.target, layer, table) for table in there}
    parts = [_build_query(lake.target, layer, table) for table in there if batches[table] is None]
    queries = [" UNION ALL ".join(parts[at::AT_ONCE]) for at in range(min(AT_ONCE, len(parts)))]
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = pool.map(lambda query: lake.spark.sql(query).collect(), queries)
            rows = [row for answered in answers for row in answered]
    except SPARK_FAILURES:
        return {table: _try_newest_batch(lake, layer, table) for table in there}
    return batches | {row["name"]: int(row["newest"] or 0) for row in rows}


def _read_logged_batch(target: Target, layer: Layer, table: str) -> int | None:
    """The newest batch by the log of a table without a catalog; None if unknown."""
    log = read_table_log(target, layer, table)
    return None if log is None else log.find_highest("_batch")


def _build_query(target: Target, layer: Layer, table: str) -> str:
    place = names.table_name(target, layer, table)
    return f"SELECT {names.literal(table)} AS name, max(_batch) AS newest FROM {place}"


def _try_newest_batch(lake: Lake, layer: Layer, table: str) -> int | None:
    try:
        return newest_batch(lake, layer, table)
    except SPARK_FAILURES:
        return None
