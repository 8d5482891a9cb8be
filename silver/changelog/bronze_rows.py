"""The bronze rows of a table that silver has not decoded yet."""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import contract as bronze
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.memory import Arrived
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage import names
from lakehouse.storage.lake import Lake, LakeTable
from silver.run import SilverTable
from silver.storage.stages import end_stage

ANY = ""
"""Stands for every topic of a feed that cannot be read."""
_EVERY = 2**62


def feeds_of(table: Table) -> dict[str, set[str | None]]:
    """The bronze tables that the table reads, with its topics there; None is every record."""
    topics_by_feed: dict[str, set[str | None]] = {}
    for source in table.feeds:
        topics_by_feed.setdefault(bronze.feed_name(table, source), set()).add(source.topic)
    return topics_by_feed


def find_arrived(
    lake: Lake,
    tables: Iterable[Table],
    done: Mapping[str, dict[str, int]],
    remembered: Mapping[str, Arrived] = MappingProxyType({}),
) -> dict[str, Arrived]:
    """What every feed of the tables holds beyond the batches `done` (by table and feed).

    The entries of `remembered` are used where they reach back to what all tables have done. One
    query for the other feeds; one that no table reads by topic is answered from file statistics.
    """
    done_by_feed: dict[str, int] = {}
    shared: set[str] = set()
    for table in tables:
        for feed, topics in feeds_of(table).items():
            at = done.get(table.table, {}).get(feed, 0)
            done_by_feed[feed] = min(done_by_feed.get(feed, at), at)
            if None not in topics:
                shared.add(feed)
    remembered = {
        f: of for f, of in remembered.items() if f in done_by_feed and of.since <= done_by_feed[f]
    }
    held = [f for f in sorted(done_by_feed) if lake.exists("bronze", f)]
    parts = {
        f: _newest_sql(lake.target, f, done_by_feed[f], f in shared)
        for f in held
        if f not in remembered
    }
    return _query_feeds(lake.spark, parts, done_by_feed) | remembered


def _query_feeds(
    spark: SparkSession, parts: Mapping[str, str], done_by_feed: Mapping[str, int]
) -> dict[str, Arrived]:
    """Runs several queries as one; where that fails, one query per feed.

    A feed that cannot be read counts as having a new batch: its tables then fail with the cause.
    """
    try:
        return _run_queries(spark, [*parts.values()]) if parts else {}
    except SPARK_FAILURES:
        if len(parts) == 1:
            return {
                feed: Arrived(done_by_feed[feed] + 1, {ANY: done_by_feed[feed] + 1})
                for feed in parts
            }
    alone = [_query_feeds(spark, {feed: query}, done_by_feed) for feed, query in parts.items()]
    return reduce(or_, alone)


def _run_queries(spark: SparkSession, queries: list[str]) -> dict[str, Arrived]:
    rows = spark.sql(" UNION ALL ".join(queries)).collect()
    topics_by_feed: dict[str, dict[str | None, int]] = {}
    for row in rows:
        topics_by_feed.setdefault(row["feed"], {})[row["topic"]] = int(row["newest"] or 0)
    return {feed: Arrived(max(topics.values()), topics) for feed, topics in topics_by_feed.items()}


def find_newest_batches(table: Table, arrived: Mapping[str, Arrived]) -> dict[str, int]:
    """The newest batch of each feed of the table, whether or not it holds records of the table."""
    return {feed: arrived[feed].newest for feed in feeds_of(table) if feed in arrived}


def has_new(table: Table, done: Mapping[str, int], arrived: Mapping[str, Arrived]) -> bool:
    """Whether a feed holds records of the table above the batches `done`."""
    return any(
        at > done.get(feed, 0)
        for feed, wanted in feeds_of(table).items()
        for topic, at in (arrived[feed].topics if feed in arrived else {}).items()
        if None in wanted or topic in wanted or topic == ANY
    )


def read_new_rows(
    table: SilverTable, done: Mapping[str, int], newest: Mapping[str, int]
) -> DataFrame:
    """Rows of the table's feeds above the batches `done` and up to `newest` (one is newer).

    Beside bronze's columns they have `_feed`.
    """
    parts = [
        read_batches(table, feed, done.get(feed, 0) + 1, newest[feed])
        for feed in feeds_of(table.config)
        if newest.get(feed, 0) > done.get(feed, 0)
    ]
    return reduce(DataFrame.unionByName, parts)


def read_all_rows(table: SilverTable) -> DataFrame:
    """Every bronze row of the table, with `_feed`."""
    held = [feed for feed in feeds_of(table.config) if table.lake.exists("bronze", feed)]
    return reduce(DataFrame.unionByName, [read_batches(table, feed, 1, _EVERY) for feed in held])


def read_batches(table: SilverTable, feed: str, first: int, last: int) -> DataFrame:
    """Rows of one of the table's feeds, of the ingest batches `first` to `last`."""
    wanted = feeds_of(table.config)[feed]
    rows = read_feed(table.lake, feed).where((F.col("_batch") >= first) & (F.col("_batch") <= last))
    topics = sorted(topic for topic in wanted if topic is not None)
    chosen = rows if None in wanted else rows.where(F.col("_topic").isin(topics))
    return end_stage(chosen).withColumn("_feed", F.lit(feed))


def read_feed(lake: Lake, feed: str) -> DataFrame:
    """All rows of a feed; of a mended record, the row that replaces it."""
    rows, kept = LakeTable(lake, "bronze", feed).read(), read_mended(lake, feed)
    if kept is None:
        return rows
    others = rows.join(F.broadcast(kept.select("_arrival")), "_arrival", "left_anti")
    return others.unionByName(kept.select(rows.columns))


def read_mended(lake: Lake, feed: str) -> DataFrame | None:
    """The newest row of every record of a feed that somebody mended; None where there are none."""
    kept = LakeTable(lake, "bronze", bronze.mended_name(feed))
    if not kept.exists:
        return None
    rows, (at, _, _) = kept.read(), bronze.MENDED_AT
    newest = F.max_by(F.struct(*rows.columns), at).alias("_row")
    return rows.groupBy("_arrival").agg(newest).select("_row.*")


def mended_sql(lake: Lake, table: Table) -> str | None:
    """SELECT of `_feed`, `_arrival` and `_mended_at` of the mended records; None without any."""
    at, _, _ = bronze.MENDED_AT
    tables = {feed: bronze.mended_name(feed) for feed in feeds_of(table)}
    parts = [
        f"SELECT {names.literal(feed)} AS _feed, _arrival, max({at}) AS {at}"
        f" FROM {lake.name('bronze', name)} GROUP BY _arrival"
        for feed, name in tables.items()
        if lake.exists("bronze", name)
    ]
    return " UNION ALL ".join(parts) or None


def avro_schemas(table: SilverTable) -> dict[str, str]:
    """The Avro schemas that bronze keeps for the table's feeds, by id."""
    if all(source.value_format != "avro" for source in table.config.feeds):
        return {}
    schemas: dict[str, str] = {}
    for feed in feeds_of(table.config):
        schemas |= kept_schemas(table.lake, feed)
    return schemas


def kept_schemas(lake: Lake, feed: str) -> dict[str, str]:
    """The Avro schemas that bronze keeps for a feed, by id."""
    kept = LakeTable(lake, "bronze", bronze.schemas_name(feed))
    rows = kept.read().select("id", "schema").collect() if kept.exists else []
    return {row["id"]: row["schema"] for row in rows}


def _newest_sql(target: Target, feed: str, done: int, by_topic: bool) -> str:
    rows = f"FROM {names.table_name(target, 'bronze', feed)}"
    if not by_topic:
        return f"SELECT {names.literal(feed)} AS feed, NULL AS topic, max(_batch) AS newest {rows}"
    return (
        f"SELECT {names.literal(feed)} AS feed, _topic AS topic, max(_batch) AS newest {rows}"
        f" WHERE _batch > {done} GROUP BY _topic"
    )
