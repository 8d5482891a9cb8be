"""Dead letters as people ask for them: of some tables, by reason, key and time, newest first."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver.storage import one_key
from silver.storage.row_columns import all_of

SHOWN = (
    "reason", "message", "rule", "key", "sequence", "position", "at", "run_id", "resolved_at",
    "resolved_by", "raw",
)  # fmt: skip


class Wanted(NamedTuple):
    """Which dead letters are meant.

    `reasons` are reason codes (`rule` means every rule); `key` the key's values as texts; `since`
    a time in UTC as Spark reads it; `resolved` takes those that a replay has applied as well.
    """

    reasons: Sequence[str] = ()
    key: Mapping[str, str] | None = None
    since: str | None = None
    resolved: bool = False


def dead_letters(
    spark: SparkSession, target: Target, tables: Sequence[Table], wanted: Wanted
) -> DataFrame | None:
    """The dead letters that are wanted: `table`, then SHOWN; None where no table has any.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    found = [_of(spark, target, table, wanted) for table in tables]
    there = [letters for letters in found if letters is not None]
    return reduce(DataFrame.unionByName, there) if there else None


def by_reason(letters: DataFrame) -> list[tuple[str, str, int]]:
    """Table, reason and number, in this order."""
    counted = letters.groupBy("table", "reason").count().orderBy("table", "reason")
    return [(row["table"], row["reason"], row["count"]) for row in counted.collect()]


def newest(letters: DataFrame, limit: int) -> DataFrame:
    """The newest of them, in their order."""
    return letters.orderBy(F.desc("at"), "table", F.desc("_arrival")).limit(limit).drop("_arrival")


def _of(spark: SparkSession, target: Target, table: Table, wanted: Wanted) -> DataFrame | None:
    if not names.exists(spark, target, "silver", f"{table.table}_dead_letters"):
        return None
    letters = spark.table(names.name(target, "silver", f"{table.table}_dead_letters"))
    kept = letters.where(condition(spark, target, table, wanted))
    named = kept.withColumns({"key": F.col("_key"), "sequence": F.col("_sequence")})
    return named.select(F.lit(table.table).alias("table"), *SHOWN, "_arrival")


def condition(spark: SparkSession, target: Target, table: Table, wanted: Wanted) -> Column:
    """Which rows of a table's dead letters, which must be there, are wanted.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    chosen = all_of(_conditions(wanted))
    if wanted.key is None:
        return chosen
    log = spark.table(names.name(target, "silver", f"{table.table}_changes")).schema
    one_key.check_types(spark, wanted.key, log)
    return chosen & one_key.says_key("_key", wanted.key, log)


def _conditions(wanted: Wanted) -> list[Column]:
    conditions = [] if wanted.resolved else [F.col("resolved_at").isNull()]
    if wanted.reasons:
        code = F.substring_index("reason", ":", 1)
        conditions.append(F.col("reason").isin(*wanted.reasons) | code.isin(*wanted.reasons))
    if wanted.since is not None:
        conditions.append(F.col("at") >= F.lit(wanted.since).cast("timestamp"))
    return conditions
