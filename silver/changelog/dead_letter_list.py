"""Dead letters as people ask for them: of some tables, by reason, key and time, newest first."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import feed_name
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake, LakeTable
from silver.changelog.acknowledged import IDENTITY, with_acknowledged
from silver.decode.change import NOT_JSON
from silver.decode.spark import position
from silver.run import SilverTable
from silver.storage import one_key
from silver.storage.row_columns import all_of

SHOWN = (
    "reason", "message", "rule", "key", "sequence", "position", "at", "run_id", "resolved_at",
    "resolved_by", "acknowledged", "raw",
)  # fmt: skip
_OWN = tuple(name for name in SHOWN if name != "acknowledged")
NO_TOPIC = "no_topic"


class Wanted(NamedTuple):
    """Which dead letters are meant.

    `reasons` are reason codes (`rule` means every rule); `key` the key's values as texts; `since`
    a time in UTC as Spark reads it; `file` begins, within its landing folder, the place of the
    letters. `resolved` takes those that a replay has applied or somebody acknowledged as well;
    `acknowledged` takes only the latter.
    """

    reasons: Sequence[str] = ()
    key: Mapping[str, str | None] | None = None
    since: str | None = None
    resolved: bool = False
    file: str | None = None
    acknowledged: bool = False


def dead_letters(
    spark: SparkSession, target: Target, tables: Sequence[Table], wanted: Wanted
) -> DataFrame | None:
    """The dead letters that are wanted: `table`, then SHOWN; None where no table has any.

    Lines of a shared feed that name no topic are dead letters of the feed, whose name is `table`.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    lake = Lake(spark, target)
    found = [_of(SilverTable(lake, table), wanted) for table in tables]
    shared = {feed_name(t, source) for t in tables for source in t.feeds if source.topic}
    found += [_of_feed(lake, feed, wanted) for feed in sorted(shared)]
    there = [letters for letters in found if letters is not None]
    if not there:
        return None
    known = with_acknowledged(spark, target, reduce(DataFrame.unionByName, there))
    if wanted.acknowledged:
        known = known.where("acknowledged IS NOT NULL")
    elif not wanted.resolved:
        known = known.where("acknowledged IS NULL")
    return known.select("table", *SHOWN, *IDENTITY)


def reasons_left(letters: DataFrame) -> list[tuple[str, str, str | None, int]]:
    """Table, reason, the first message and number of letters, most first."""
    found = letters.groupBy("table", "reason").agg(
        F.min("message").alias("message"), F.count(F.lit(1)).alias("n")
    )
    rows = found.orderBy("table", F.desc("n"), "reason").collect()
    return [(row["table"], row["reason"], row["message"], row["n"]) for row in rows]


def by_reason(letters: DataFrame) -> list[tuple[str, str, int]]:
    """Table, reason and number, in this order."""
    counted = letters.groupBy("table", "reason").count().orderBy("table", "reason")
    return [(row["table"], row["reason"], row["count"]) for row in counted.collect()]


def newest(letters: DataFrame, limit: int) -> DataFrame:
    """The newest of them, in their order."""
    return letters.orderBy(F.desc("at"), "table", F.desc("_arrival")).limit(limit).drop(*IDENTITY)


def _of(table: SilverTable, wanted: Wanted) -> DataFrame | None:
    if not table.dead_letters.exists:
        return None
    kept = table.dead_letters.read().where(condition(table, wanted))
    named = kept.withColumns({"key": F.col("_key"), "sequence": F.col("_sequence")})
    return named.select(F.lit(table.name).alias("table"), *_OWN, *IDENTITY)


def _of_feed(lake: Lake, feed: str, wanted: Wanted) -> DataFrame | None:
    """The lines of a bronze table that name no topic: no table reads or replays them."""
    held = LakeTable(lake, "bronze", feed)
    if wanted.key is not None or not held.exists:
        return None
    lines = held.read().where("_topic IS NULL")
    is_json = F.try_parse_json("_raw").isNotNull()
    none = F.lit(None).cast("string")
    known = {
        "reason": F.when(is_json, NO_TOPIC).otherwise(NOT_JSON),
        "message": F.when(
            is_json, "the record names no topic; tables read records by topic here"
        ).otherwise("the line is no JSON"),
        "position": position(),
        "at": F.col("_arrived_at"),
        "resolved_at": F.lit(None).cast("timestamp"),
        "raw": F.make_valid_utf8("_raw"),
        "_feed": F.lit(feed),
        "_arrival": F.col("_arrival"),
    }
    named = lines.select(*[known.get(name, none).alias(name) for name in (*_OWN, *IDENTITY)])
    kept = named.where(all_of(_conditions(wanted)))
    return kept.select(F.lit(feed).alias("table"), *_OWN, *IDENTITY)


def condition(table: SilverTable, wanted: Wanted) -> Column:
    """Which rows of a table's dead letters, which must be there, are wanted.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    chosen = all_of(_conditions(wanted))
    if wanted.key is None:
        return chosen
    one_key.check_types(table.spark, wanted.key, table.log.schema)
    return chosen & one_key.says_key("_key", wanted.key, table.log.schema)


def _conditions(wanted: Wanted) -> list[Column]:
    conditions = [] if wanted.resolved else [F.col("resolved_at").isNull()]
    if wanted.reasons:
        code = F.substring_index("reason", ":", 1)
        conditions.append(F.col("reason").isin(*wanted.reasons) | code.isin(*wanted.reasons))
    if wanted.since is not None:
        conditions.append(F.col("at") >= F.lit(wanted.since).cast("timestamp"))
    if wanted.file is not None:
        conditions.append(F.contains("position", F.lit(f"/{wanted.file.strip('/')}")))
    return conditions
