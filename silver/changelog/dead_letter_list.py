"""Lists dead letters of some tables, selected by reason, key and time, newest first."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze.contract import MENDED_AT, feed_name
from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.lake import Lake, LakeTable
from silver.changelog import bronze_rows
from silver.changelog.acknowledged import IDENTITY, with_acknowledged
from silver.decode.change import NOT_JSON
from silver.decode.spark import position_column
from silver.run import SilverTable
from silver.storage import one_key

SHOWN = (
    "reason", "message", "rule", "key", "sequence", "position", "at", "run_id", "resolved_at",
    "resolved_by", "acknowledged", "mended_at", "raw",
)  # fmt: skip
_STORED = tuple(name for name in SHOWN if name not in ("acknowledged", "mended_at"))
NO_TOPIC = "no_topic"


class Wanted(NamedTuple):
    """Which dead letters are selected.

    `reasons` are reason codes (`rule` means every rule); `key` the key's values as texts; `since`
    a time in UTC as Spark reads it; `file` a file or folder in the path of their positions, and
    `position` the position of one letter. `resolved` adds letters that a replay has applied or
    somebody has acknowledged; `acknowledged` selects only acknowledged ones.
    """

    reasons: Sequence[str] = ()
    key: Mapping[str, str | None] | None = None
    since: str | None = None
    resolved: bool = False
    file: str | None = None
    acknowledged: bool = False
    position: str | None = None


def dead_letters(lake: Lake, tables: Sequence[Table], wanted: Wanted) -> DataFrame | None:
    """The selected dead letters: `table`, then SHOWN; None where no table has any.

    Lines of a shared feed that name no topic are dead letters of the feed, whose name is `table`.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    by_source = [_read_letters(SilverTable(lake, table), wanted) for table in tables]
    by_source += [_read_letters_of_feed(lake, feed, wanted) for feed in _list_shared_feeds(tables)]
    existing = [letters for letters in by_source if letters is not None]
    if not existing:
        return None
    letters = with_acknowledged(lake, reduce(DataFrame.unionByName, existing))
    if wanted.acknowledged:
        letters = letters.where("acknowledged IS NOT NULL")
    elif not wanted.resolved:
        letters = letters.where("acknowledged IS NULL")
    return letters.select("table", *SHOWN, *IDENTITY)


def count_with_message(letters: DataFrame) -> list[tuple[str, str, str | None, int]]:
    """Table, reason, one of the messages and number of letters; of a table most letters first."""
    counted = letters.groupBy("table", "reason").agg(
        F.min("message").alias("message"), F.count(F.lit(1)).alias("n")
    )
    rows = counted.orderBy("table", F.desc("n"), "reason").collect()
    return [(row["table"], row["reason"], row["message"], row["n"]) for row in rows]


def count_by_reason(letters: DataFrame) -> list[tuple[str, str, int]]:
    """Table, reason and number of letters, sorted by table and reason."""
    counted = letters.groupBy("table", "reason").count().orderBy("table", "reason")
    return [(row["table"], row["reason"], row["count"]) for row in counted.collect()]


def select_newest(letters: DataFrame, limit: int) -> DataFrame:
    """The newest letters, newest first."""
    return letters.orderBy(F.desc("at"), "table", F.desc("_arrival")).limit(limit).drop(*IDENTITY)


def _list_shared_feeds(tables: Sequence[Table]) -> list[str]:
    """The bronze tables whose records are divided among tables by topic."""
    return sorted({feed_name(t, source) for t in tables for source in t.feeds if source.topic})


def _read_letters(table: SilverTable, wanted: Wanted) -> DataFrame | None:
    text = _build_letters_sql(table.lake, table.config, wanted)
    if text is None:
        return None
    letters = table.spark.sql(text)
    if wanted.key is None:
        return letters
    one_key.check_types(table.spark, wanted.key, table.log.schema)
    return letters.where(one_key.says_key("key", wanted.key, table.log.schema))


def _build_letters_sql(lake: Lake, table: Table, wanted: Wanted) -> str | None:
    """SELECT of the wanted dead letters of a table, whatever their key; None where it has none."""
    name = f"{table.table}_dead_letters"
    if not lake.exists("silver", name):
        return None
    renamed = {"key": "_key AS key", "sequence": "_sequence AS sequence"}
    columns = ", ".join(renamed.get(column, column) for column in _STORED)
    mended = bronze_rows.mended_sql(lake, table)
    join = f" LEFT JOIN ({mended}) AS mended USING (_feed, _arrival)" if mended else ""
    mended_at = MENDED_AT[0] if mended else "CAST(NULL AS timestamp)"
    return (
        f"SELECT {names.literal(table.table)} AS `table`, {columns}, {mended_at} AS mended_at,"
        f" _feed, _arrival"
        f" FROM {lake.name('silver', name)} AS letters{join} WHERE {_build_where(wanted)}"
    )


def _read_letters_of_feed(lake: Lake, feed: str, wanted: Wanted) -> DataFrame | None:
    """The lines of a bronze table that name no topic: no table reads or replays them."""
    table = LakeTable(lake, "bronze", feed)
    if wanted.key is not None or not table.exists:
        return None
    lines = table.read().where("_topic IS NULL")
    is_json = F.try_parse_json("_raw").isNotNull()
    none = F.lit(None).cast("string")
    columns = {
        "reason": F.when(is_json, NO_TOPIC).otherwise(NOT_JSON),
        "message": F.when(
            is_json, "the record names no topic; tables read records by topic here"
        ).otherwise("the line is no JSON"),
        "position": position_column(),
        "at": F.col("_arrived_at"),
        "resolved_at": F.lit(None).cast("timestamp"),
        "raw": F.make_valid_utf8("_raw"),
        "_feed": F.lit(feed),
        "_arrival": F.col("_arrival"),
    }
    letters = lines.select(*[columns.get(name, none).alias(name) for name in (*_STORED, *IDENTITY)])
    mended_at = F.lit(None).cast("timestamp").alias("mended_at")
    selected = letters.where(_build_where(wanted))
    return selected.select(F.lit(feed).alias("table"), *_STORED, mended_at, *IDENTITY)


def build_condition(table: SilverTable, wanted: Wanted) -> Column:
    """Which rows of a table's dead letters are wanted; the table of dead letters must exist.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    condition = F.expr(_build_where(wanted))
    if wanted.key is None:
        return condition
    one_key.check_types(table.spark, wanted.key, table.log.schema)
    return condition & one_key.says_key("_key", wanted.key, table.log.schema)


def _build_where(wanted: Wanted) -> str:
    """The condition of the wanted letters in SQL, without that on their key."""
    conditions = [] if wanted.resolved else ["resolved_at IS NULL"]
    if wanted.reasons:
        listed = ", ".join(map(names.literal, wanted.reasons))
        code = "split_part(reason, ':', 1)"
        conditions.append(f"(reason IN ({listed}) OR {code} IN ({listed}))")
    if wanted.since is not None:
        conditions.append(f"at >= CAST({names.literal(wanted.since)} AS timestamp)")
    if wanted.file is not None:
        part = names.literal("/" + wanted.file.strip("/"))
        conditions.append(f"contains(position, {part})")
    if wanted.position is not None:
        end = names.literal("/" + wanted.position.strip("/"))
        whole = names.literal(wanted.position)
        conditions.append(f"(position = {whole} OR endswith(position, {end}))")
    return " AND ".join(conditions) or "true"
