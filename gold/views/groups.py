"""Consistency groups as gold shows them: which versions belong together, and what waits."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_log, read_values
from silver.contract import GROUPS

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Waits(NamedTuple):
    """What waits in a group: transactions, records of each table, since when, overdue ones."""

    transactions: int
    records: dict[str, int]
    since: datetime | None
    overdue: tuple[str, ...]


def published(
    spark: SparkSession, target: Target, tables: Iterable[Table]
) -> dict[str, dict[str, int]]:
    """Of each group the newest set of Delta versions that show the same transactions."""
    folder = names.location(target, "silver", GROUPS)
    if folder is not None and (log := read_log(Path(folder))) is not None:
        rows = read_values(log, ["pass", "group", "versions"])
        if rows is not None:
            return {
                group: dict(versions or ())
                for _, group, versions in sorted(rows, key=itemgetter(0))
            }
    passes = _passes(spark, target, tables)
    if passes is None:
        return {}
    found = passes.groupBy("group").agg(F.max_by("versions", "pass").alias("versions")).collect()
    return {row["group"]: row["versions"] for row in found}


def waiting(spark: SparkSession, target: Target, tables: Iterable[Table]) -> dict[str, Waits]:
    """What waits now, by group."""
    passes = _passes(spark, target, tables)
    if passes is None:
        return {}
    found = passes.groupBy("group").agg(F.max_by("waiting", "pass").alias("waiting")).collect()
    return {row["group"]: _waits(row["waiting"]) for row in found}


def version_at(spark: SparkSession, target: Target, kept: str, as_of: str) -> int | None:
    """The version of a silver table that its group had reached at a time; None before its first."""
    moment = f"TIMESTAMP AS OF {names.literal(as_of)}"
    passes = spark.sql(f"SELECT * FROM {names.name(target, 'silver', GROUPS)} {moment}")
    row = passes.agg(F.max(F.col("versions")[kept]).alias("version")).first()
    return None if row is None else row["version"]


def _passes(spark: SparkSession, target: Target, tables: Iterable[Table]) -> DataFrame | None:
    """The passes of the tables' groups; None, without a look, where no table is in a group."""
    named = sorted({t.consistency_group for t in tables if t.consistency_group is not None})
    if not named or not names.exists(spark, target, "silver", GROUPS):
        return None
    rows = spark.table(names.name(target, "silver", GROUPS))
    return rows.where(F.col("group").isin(named))


def _waits(rows: list[Any]) -> Waits:
    records: dict[str, int] = {}
    for row in rows:
        for table, count in row["records"].items():
            records[table] = records.get(table, 0) + count
    first = min((row["since"] for row in rows if row["since"] is not None), default=None)
    since = None if first is None else EPOCH + timedelta(microseconds=first)
    overdue = tuple(row["transaction"] for row in rows if row["overdue"])
    return Waits(len(rows), records, since, overdue)
