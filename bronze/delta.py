"""Another Delta table into bronze: its change feed or its appends, each version once.

A row is one JSON object of its columns and of what Delta's change feed adds: `_change_type`,
`_commit_version` and `_commit_timestamp`. The rows before updates are left out. What is read first
is the feed from version 0 on or, where that cannot be read, all rows as they are. Versions that
cannot be read later are lost: all rows follow as they are, after a truncate where the table's order
is that of the versions.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import beginning
from bronze.feed_state import FeedState, Note
from bronze.feeds import Feed
from bronze.files.batches import mark
from bronze.files.lines import json_of_row
from bronze.storage import News, append_spread, hexadecimal
from lakehouse.config.formats import CHANGE_TYPE, COMMIT_TIME, COMMIT_VERSION
from lakehouse.config.target import Target
from lakehouse.errors import LakehouseError
from lakehouse.run import gaps
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import literal, quote

MOST_VERSIONS = 50
"""So many versions of a table without a change feed are read at once."""
_PARTITION = "0"
_LOST = re.compile(
    r"FILE_NOT_EXIST|FileNotFound|DELTA_\w*(MISSING_CHANGE_DATA|CHANGE_DATA_FEED_INCOMPATIBLE"
    r"|FILE_NOT_FOUND|VERSION|LOG_FILE|SCHEMA_CHANGE|TRUNCATED)"
)
_SAME_ROWS = re.compile("OPTIMIZE|REORG|VACUUM|CLUSTER|COMPUTE")
_OTHER_ROWS = re.compile("MERGE|UPDATE$|DELETE|RESTORE")


class TableMadeAnew(LakehouseError):
    """A Delta table has fewer versions than were read: another one has taken its place."""


class _Span(NamedTuple):
    """Versions of a table that are read at once; `first` is None where none was read before."""

    first: int | None
    last: int


def ingest_delta(
    spark: SparkSession, target: Target, feed: Feed, state: FeedState, before: int
) -> News:
    """Appends what the table's versions since the last look brought; batches follow `before`.

    Raises:
        TableMadeAnew: the table has fewer versions than were read.
    """
    source = DeltaSource.at(spark, str(feed.delta))
    newest, start = source.newest, state.taken.offsets.get(source.name, {}).get(_PARTITION)
    if any(gap.feed == feed.name for gap in gaps.still_open(spark, target)):
        gaps.close(spark, target, f"feed = {literal(feed.name)}")
    if start is not None and newest < start - 1:
        action = "read the new table under another name, or remove what the lake has of this one"
        found = f"{source.name} is at version {newest}, version {start - 1} was read"
        raise TableMadeAnew(f"{found}; do: {action}")
    came = News(0, {}, {})
    for number, span in enumerate(_spans(source, start, newest), before + 1):
        news = _append_span(spark, target, feed, (source, span), number)
        came = came.followed(news)
        state.note(Note(news.batch or before, offsets={source.name: {_PARTITION: span.last + 1}}))
    return came


def _spans(source: "DeltaSource", start: int | None, newest: int) -> Iterator[_Span]:
    """The versions that are new, cut so that few are read at once of a table without a feed."""
    if start is None or (start <= newest and source.has_feed):
        yield _Span(start, newest)
        return
    for first in range(start, newest + 1, MOST_VERSIONS):
        yield _Span(first, min(newest, first + MOST_VERSIONS - 1))


def _append_span(
    spark: SparkSession, target: Target, feed: Feed, read: tuple["DeltaSource", _Span], number: int
) -> News:
    """Appends the changes of some versions, or all rows as they are where these cannot be read."""
    source, span = read

    def append(changes: DataFrame) -> News:
        return append_spread(spark, target, feed, _rows(changes, feed, source, number), number)

    try:
        changes = source.changes(span)
        if changes is not None:
            return append(changes)
    except SPARK_FAILURES as failure:
        if span.first is not None and not _LOST.search(str(failure)):
            raise
    whole = source.rows(span.last).withColumn(CHANGE_TYPE, F.lit("insert"))
    if span.first is None:
        return append(whole)
    lost = {"topic": source.name, "kind": "versions", "first": span.first, "last": span.last}
    found = [gaps.Gap.model_validate({"table": t, "feed": feed.name} | lost) for t in feed.tables]
    gaps.record(spark, target, found, "")
    return append(_after_truncate(whole, span.last) if feed.read_anew else whole)


def _after_truncate(rows: DataFrame, version: int) -> DataFrame:
    own = {COMMIT_VERSION: f"{version}L", COMMIT_TIME: "now()", CHANGE_TYPE: "'truncate'"}
    texts = (f"{own.get(name, 'NULL')} AS {quote(name)}" for name in rows.columns)
    return rows.unionByName(rows.sparkSession.range(1).selectExpr(*texts))


class DeltaSource(NamedTuple):
    """A Delta table that a feed reads, by its SQL name."""

    spark: SparkSession
    name: str

    @classmethod
    def at(cls, spark: SparkSession, place: str) -> "DeltaSource":
        """The table of a name, or in a folder: a text with a slash in it."""
        if "/" not in place:
            return cls(spark, place)
        folder = place if "://" in place else str(Path(place).expanduser().absolute())
        return cls(spark, f"delta.{quote(folder.rstrip('/'))}")

    @property
    def newest(self) -> int:
        """The table's version."""
        row = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").collect()[0]
        return int(row["version"])

    @property
    def has_feed(self) -> bool:
        """Whether the table has Delta's change data feed."""
        shown = self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return ("delta.enableChangeDataFeed", "true") in {(row[0], row[1]) for row in shown}

    def changes(self, span: _Span) -> DataFrame | None:
        """What the versions changed; None where that cannot be told but by reading all rows."""
        if self.has_feed:
            bounds = {"startingVersion": span.first or 0, "endingVersion": span.last}
            read = self.spark.read.option("readChangeFeed", "true").options(**bounds)
            return read.table(self.name).where(f"{CHANGE_TYPE} <> 'update_preimage'")
        return None if span.first is None else self._appends(span.first, span.last)

    def rows(self, version: int) -> DataFrame:
        """All rows of a version, with its number and the time of its commit."""
        return self._numbered(self._read(version), version)

    def _read(self, version: int) -> DataFrame:
        return self.spark.read.option("versionAsOf", version).table(self.name)

    def _numbered(self, rows: DataFrame, version: int) -> DataFrame:
        row = self.spark.sql(f"DESCRIBE HISTORY {self.name}").where(f"version = {version}").first()
        time = row["timestamp"] if row else datetime.now(timezone.utc)
        own = {COMMIT_VERSION: F.lit(version).cast("bigint"), COMMIT_TIME: F.lit(time)}
        return rows.withColumns(own)

    def _files(self, version: int) -> set[str]:
        """The names of a version's data files."""
        return {file.rpartition("/")[2] for file in self._read(version).inputFiles()}

    def _appends(self, first: int, last: int) -> DataFrame | None:
        """The rows that the versions added; None where one of them did anything else to rows."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}")
        done = history.where(f"version BETWEEN {first} AND {last}").collect()
        operations = {row["version"]: row["operation"] for row in done}
        before, parts = self._files(first - 1), list[DataFrame]()
        for version in range(first, last + 1):
            now, operation = self._files(version), operations.get(version, "UPDATE")
            if not _SAME_ROWS.match(operation):
                if _OTHER_ROWS.search(operation) or not before <= now:
                    return None
                new = F.col("_metadata.file_name").isin(sorted(now - before))
                parts.append(self._numbered(self._read(version).where(new), version))
            before = now
        added = reduce(_union, parts or [self.rows(last).limit(0)])
        return added.withColumn(CHANGE_TYPE, F.lit("insert"))


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def _rows(changes: DataFrame, feed: Feed, source: DeltaSource, number: int) -> DataFrame:
    """Changes as rows of the contract, in no order; `_arrival` tells theirs.

    `_arrival` is in hex: batch (8 digits), version (16), 1 but for a truncate or delete (2), row
    (16), and the feed's mark (4): in a version that has both, a key's delete comes first.
    """
    last = ~F.col(CHANGE_TYPE).isin("truncate", "delete")
    place: list[Column] = [
        F.lit(beginning(number)),
        hexadecimal(F.col(COMMIT_VERSION), 16),
        hexadecimal(last.cast("int"), 2),
        hexadecimal(F.monotonically_increasing_id(), 16),
        F.lit(mark(feed)),
    ]
    texts = {name.lower() for name in feed.texts}
    nothing = dict.fromkeys(("_key", "_headers", "_file"), "string") | {"_line": "bigint"}
    return changes.select(
        json_of_row(changes.schema, texts).alias("_raw"),
        F.lit(source.name).alias("_topic"),
        F.lit(int(_PARTITION)).alias("_partition"),
        F.col(COMMIT_VERSION).alias("_offset"),
        F.col(COMMIT_TIME).alias("_timestamp"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in nothing.items()),
        F.lit(False).alias("_whole"),
        F.lit(number).cast("bigint").alias("_batch"),
        F.lit(datetime.now(timezone.utc)).alias("_arrived_at"),
        F.concat(*place).alias("_arrival"),
    )
