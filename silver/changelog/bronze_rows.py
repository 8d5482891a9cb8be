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
from lakehouse.storage.lake import AskedLake, Lake, LakeTable
from silver.run import SilverTable
from silver.storage.stages import apart

ANY = ""
"""Stands for every topic of a feed that cannot be read."""
_EVERY = 2**62


def feeds_of(table: Table) -> dict[str, set[str | None]]:
    """The bronze tables that the table reads, with its topics there; None is every record."""
    found: dict[str, set[str | None]] = {}
    for source in table.feeds:
        found.setdefault(bronze.feed_name(table, source), set()).add(source.topic)
    return found


def arrived(
    spark: SparkSession,
    target: Target,
    tables: Iterable[Table],
    done: Mapping[str, dict[str, int]],
    told: Mapping[str, Arrived] = MappingProxyType({}),
) -> dict[str, Arrived]:
    """What every feed of the tables holds beyond the batches `done` (by table and feed).

    What `told` tells of the feeds is taken, where it reaches back to what all tables have done. One
    query for the others; a feed that no table takes topics from is answered from file statistics.
    """
    known: dict[str, int] = {}
    shared = set()
    for table in tables:
        for feed, topics in feeds_of(table).items():
            at = done.get(table.table, {}).get(feed, 0)
            known[feed] = min(known.get(feed, at), at)
            shared |= set() if None in topics else {feed}
    told = {f: of for f, of in told.items() if f in known and of.since <= known[f]}
    held = [feed for feed in sorted(known) if names.exists(spark, target, "bronze", feed)]
    parts = {f: _newest_sql(target, f, known[f], f in shared) for f in held if f not in told}
    return _asked_together(spark, parts, known) | told


def _asked_together(
    spark: SparkSession, parts: Mapping[str, str], known: Mapping[str, int]
) -> dict[str, Arrived]:
    """One query of several; where it fails each feed is asked alone.

    A feed that cannot be read has a next batch for everyone: its tables will tell why.
    """
    try:
        return _asked(spark, [*parts.values()]) if parts else {}
    except SPARK_FAILURES:
        if len(parts) == 1:
            return {feed: Arrived(known[feed] + 1, {ANY: known[feed] + 1}) for feed in parts}
    alone = [_asked_together(spark, {feed: query}, known) for feed, query in parts.items()]
    return reduce(or_, alone)


def _asked(spark: SparkSession, queries: list[str]) -> dict[str, Arrived]:
    rows = spark.sql(" UNION ALL ".join(queries)).collect()
    found: dict[str, dict[str | None, int]] = {}
    for row in rows:
        found.setdefault(row["feed"], {})[row["topic"]] = int(row["newest"] or 0)
    return {feed: Arrived(max(topics.values()), topics) for feed, topics in found.items()}


def reaches(table: Table, found: Mapping[str, Arrived]) -> dict[str, int]:
    """The newest batch of each feed of the table, whether or not it holds records of the table."""
    return {feed: found[feed].newest for feed in feeds_of(table) if feed in found}


def has_new(table: Table, done: Mapping[str, int], found: Mapping[str, Arrived]) -> bool:
    """Whether a feed holds records of the table above the batches `done`."""
    return any(
        at > done.get(feed, 0)
        for feed, own in feeds_of(table).items()
        for topic, at in (found[feed].topics if feed in found else {}).items()
        if None in own or topic in own or topic == ANY
    )


def unread(table: SilverTable, done: Mapping[str, int], newest: Mapping[str, int]) -> DataFrame:
    """Rows of the table's feeds above the batches `done` and up to `newest` (one is newer).

    Beside bronze's columns they have `_feed`.
    """
    parts = [
        between(table, feed, done.get(feed, 0) + 1, newest[feed])
        for feed in feeds_of(table.config)
        if newest.get(feed, 0) > done.get(feed, 0)
    ]
    return reduce(DataFrame.unionByName, parts)


def raw(table: SilverTable) -> DataFrame:
    """Every bronze row of the table, with `_feed`."""
    held = [feed for feed in feeds_of(table.config) if table.lake.exists("bronze", feed)]
    return reduce(DataFrame.unionByName, [between(table, feed, 1, _EVERY) for feed in held])


def between(table: SilverTable, feed: str, first: int, last: int) -> DataFrame:
    """Rows of one of the table's feeds, of the ingest batches `first` to `last`."""
    own = feeds_of(table.config)[feed]
    rows = held(table.lake, feed).where((F.col("_batch") >= first) & (F.col("_batch") <= last))
    topics = sorted(topic for topic in own if topic is not None)
    chosen = rows if None in own else rows.where(F.col("_topic").isin(topics))
    return apart(chosen).withColumn("_feed", F.lit(feed))


def held(lake: Lake, feed: str) -> DataFrame:
    """All rows of a feed; of a record that somebody mended, the row that stands in its place."""
    rows, kept = LakeTable(lake, "bronze", feed).read(), mended(lake, feed)
    if kept is None:
        return rows
    others = rows.join(F.broadcast(kept.select("_arrival")), "_arrival", "left_anti")
    return others.unionByName(kept.select(rows.columns))


def mended(lake: Lake, feed: str) -> DataFrame | None:
    """The newest row of every record of a feed that somebody mended; None where there are none."""
    kept = LakeTable(lake, "bronze", bronze.mended_name(feed))
    if not kept.exists:
        return None
    rows, (at, _, _) = kept.read(), bronze.MENDED_AT
    newest = F.max_by(F.struct(*rows.columns), at).alias("_row")
    return rows.groupBy("_arrival").agg(newest).select("_row.*")


def mended_sql(lake: AskedLake, table: Table) -> str | None:
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
    found: dict[str, str] = {}
    for feed in feeds_of(table.config):
        found |= kept_schemas(table.lake, feed)
    return found


def kept_schemas(lake: Lake, feed: str) -> dict[str, str]:
    """The Avro schemas that bronze keeps for a feed, by id."""
    kept = LakeTable(lake, "bronze", bronze.schemas_name(feed))
    rows = kept.read().select("id", "schema").collect() if kept.exists else []
    return {row["id"]: row["schema"] for row in rows}


def _newest_sql(target: Target, feed: str, done: int, by_topic: bool) -> str:
    rows = f"FROM {names.name(target, 'bronze', feed)}"
    if not by_topic:
        return f"SELECT {names.literal(feed)} AS feed, NULL AS topic, max(_batch) AS newest {rows}"
    return (
        f"SELECT {names.literal(feed)} AS feed, _topic AS topic, max(_batch) AS newest {rows}"
        f" WHERE _batch > {done} GROUP BY _topic"
    )
