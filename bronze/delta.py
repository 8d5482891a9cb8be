"""Copies another Delta table into bronze: its change feed or its appends, each version once.

A row is one JSON object of its columns and of those of Delta's change feed: `_change_type`,
`_commit_version` and `_commit_timestamp`. Rows before updates are left out, unless the update took
their key away. The first read starts at version 0 of the feed, or takes all current rows if that
cannot be read. If later versions cannot be read they are lost: all current rows are read again,
after a truncate if versions order the rows.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import arrival_prefix
from bronze.feed_state import FeedState, Note
from bronze.feeds import Feed
from bronze.files.batches import feed_mark
from bronze.files.lines import json_of_row
from bronze.storage import News, append_spread, to_hexadecimal
from lakehouse.config.formats import CHANGE_TYPE, COMMIT_TIME, COMMIT_VERSION
from lakehouse.errors import LakehouseError
from lakehouse.run import gaps
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal, quote
from lakehouse.storage.past import REFUSED, SAME_ROWS

MOST_VERSIONS = 50
"""Most versions of a table without a change feed that are read at once."""
_PARTITION = "0"
_LOST = re.compile(
    r"FILE_NOT_EXIST|FileNotFound|DELTA_\w*(MISSING_CHANGE_DATA|CHANGE_DATA_FEED_INCOMPATIBLE"
    rf"|FILE_NOT_FOUND|VERSION|LOG_FILE|SCHEMA_CHANGE|TRUNCATED)|{REFUSED}"
)
_COMMIT = "add struct<path: string>"
_OTHER_ROWS = re.compile("MERGE|UPDATE$|DELETE|RESTORE")


class TableMadeAnew(LakehouseError):
    """A Delta table has fewer versions than were read: another one has taken its place."""


class _Span(NamedTuple):
    """Versions of a table that are read at once; `first` is None on the first read."""

    first: int | None
    last: int


def ingest_delta(lake: Lake, feed: Feed, state: FeedState, before: int) -> News:
    """Appends the changes of the table's new versions, in batches numbered after `before`.

    Raises:
        TableMadeAnew: the table has fewer versions than were read.
    """
    source = DeltaSource.from_place(lake.spark, str(feed.delta))
    newest, start = source.newest_version, state.taken.offsets.get(source.name, {}).get(_PARTITION)
    if any(gap.feed == feed.name for gap in gaps.open_gaps(lake)):
        gaps.close_gaps(lake, f"feed = {literal(feed.name)}")
    if start is not None and newest < start - 1:
        action = "read the new table under another name, or remove what the lake has of this one"
        mismatch = f"{source.name} is at version {newest}, version {start - 1} was read"
        raise TableMadeAnew(f"{mismatch}; do: {action}")
    came = News(0, {}, {})
    for number, span in enumerate(_cut_spans(source, start, newest), before + 1):
        news = _append_span(lake, feed, source, span, number)
        came = came.combine(news)
        offsets = {source.name: {_PARTITION: span.last + 1}}
        read = news.batch or before
        state.add_note(Note(read, offsets=offsets, unnumbered=news.unnumbered))
    return came


def _cut_spans(source: "DeltaSource", start: int | None, newest: int) -> Iterator[_Span]:
    """Splits the new versions of a table without a change feed into parts of `MOST_VERSIONS`."""
    if start is None or (start <= newest and source.has_feed):
        yield _Span(start, newest)
        return
    for first in range(start, newest + 1, MOST_VERSIONS):
        yield _Span(first, min(newest, first + MOST_VERSIONS - 1))


def _append_span(lake: Lake, feed: Feed, source: "DeltaSource", span: _Span, number: int) -> News:
    """Appends the changes of some versions, or all current rows if these cannot be read."""

    def append(changes: DataFrame) -> News:
        rows = _build_rows(changes, feed, source, number)
        return append_spread(lake, feed, rows, number)

    try:
        changes = source.read_changes(span, feed.keys)
        if changes is not None:
            return append(changes)
    except SPARK_FAILURES as failure:
        if span.first is not None and not _LOST.search(str(failure)):
            raise
    whole = source.read_rows(span.last).withColumn(CHANGE_TYPE, F.lit("insert"))
    if span.first is None:
        return append(whole)
    lost = {"topic": source.name, "kind": "versions", "first": span.first, "last": span.last}
    new = [gaps.Gap.model_validate({"table": t, "feed": feed.name} | lost) for t in feed.tables]
    gaps.add_gaps(lake, new, "")
    return append(_after_truncate(whole, span.last) if feed.read_anew else whole)


def _after_truncate(rows: DataFrame, version: int) -> DataFrame:
    values = {COMMIT_VERSION: f"{version}L", COMMIT_TIME: "now()", CHANGE_TYPE: "'truncate'"}
    texts = (f"{values.get(name, 'NULL')} AS {quote(name)}" for name in rows.columns)
    return rows.unionByName(rows.sparkSession.range(1).selectExpr(*texts))


class DeltaSource(NamedTuple):
    """A Delta table that a feed reads, by its SQL name."""

    spark: SparkSession
    name: str

    @classmethod
    def from_place(cls, spark: SparkSession, place: str) -> "DeltaSource":
        """The table of a name, or in a folder if the text contains a slash."""
        if "/" not in place:
            return cls(spark, place)
        folder = place if "://" in place else str(Path(place).expanduser().absolute())
        return cls(spark, f"delta.{quote(folder.rstrip('/'))}")

    @property
    def newest_version(self) -> int:
        """The table's version."""
        row = self.spark.sql(f"DESCRIBE HISTORY {self.name} LIMIT 1").collect()[0]
        return int(row["version"])

    @property
    def has_feed(self) -> bool:
        """Whether the table has Delta's change data feed."""
        shown = self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return ("delta.enableChangeDataFeed", "true") in {(row[0], row[1]) for row in shown}

    def read_changes(self, span: _Span, keys: Sequence[str]) -> DataFrame | None:
        """The changes of the versions; None if only reading all rows would show them."""
        if self.has_feed:
            bounds = {"startingVersion": span.first or 0, "endingVersion": span.last}
            read = self.spark.read.option("readChangeFeed", "true").options(**bounds)
            return _leave_out_old_rows(read.table(self.name), keys)
        return None if span.first is None else self._read_appends(span.first, span.last)

    def read_rows(self, version: int) -> DataFrame:
        """All rows of a version, with its number and the time of its commit."""
        return self._add_version(self._read_version(version), version)

    def _read_version(self, version: int) -> DataFrame:
        return self.spark.read.option("versionAsOf", version).table(self.name)

    def _add_version(self, rows: DataFrame, version: int) -> DataFrame:
        row = self.spark.sql(f"DESCRIBE HISTORY {self.name}").where(f"version = {version}").first()
        time = row["timestamp"] if row else datetime.now(timezone.utc)
        columns = {COMMIT_VERSION: F.lit(version).cast("bigint"), COMMIT_TIME: F.lit(time)}
        return rows.withColumns(columns)

    def _list_files(self, version: int) -> set[str]:
        """The names of a version's data files."""
        return {file.rpartition("/")[2] for file in self._read_version(version).inputFiles()}

    def _list_files_before(self, version: int) -> set[str]:
        """The names of the data files of the version before.

        If Delta refuses to read that one, as it is old, Delta's log names what the commit added.
        """
        try:
            return self._list_files(version - 1)
        except SPARK_FAILURES as failure:
            if REFUSED not in str(failure):
                raise
        folder = self.spark.sql(f"DESCRIBE DETAIL {self.name}").collect()[0]["location"]
        commit = self.spark.read.schema(_COMMIT).json(f"{folder}/_delta_log/{version:020}.json")
        added = [
            row["path"] for row in commit.where("add IS NOT NULL").select("add.path").collect()
        ]
        return self._list_files(version) - {unquote(path).rpartition("/")[2] for path in added}

    def _read_appends(self, first: int, last: int) -> DataFrame | None:
        """The rows that the versions added; None if one of them changed or removed rows."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}")
        done = history.where(f"version BETWEEN {first} AND {last}").collect()
        operations = {row["version"]: row["operation"] for row in done}
        before, parts = self._list_files_before(first), list[DataFrame]()
        for version in range(first, last + 1):
            now, operation = self._list_files(version), operations.get(version, "UPDATE")
            if not SAME_ROWS.match(operation):
                if _OTHER_ROWS.search(operation) or not before <= now:
                    return None
                new = F.col("_metadata.file_name").isin(sorted(now - before))
                parts.append(self._add_version(self._read_version(version).where(new), version))
            before = now
        added = parts[0] if parts else self.read_rows(last).limit(0)
        for part in parts[1:]:
            added = added.unionByName(part, allowMissingColumns=True)
        return added.withColumn(CHANGE_TYPE, F.lit("insert"))


def _leave_out_old_rows(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The changes without the rows before updates, but for those whose key no new row has.

    Where the table has no such key columns, or several tables read the feed, every row before an
    update is kept: it is a delete, which the new row of the same commit follows.
    """
    if not keys or not {*map(str.lower, keys)} <= {*map(str.lower, changes.columns)}:
        return changes
    kind, names = F.col(CHANGE_TYPE), [COMMIT_VERSION, *keys]
    old, new = (changes.where(kind == f"update_{of}image") for of in ("pre", "post"))
    renamed = new.select(*(F.col(quote(n)).alias(f"__new_{at}") for at, n in enumerate(names)))
    same = [F.col(quote(n)).eqNullSafe(F.col(f"__new_{at}")) for at, n in enumerate(names)]
    gone = old.join(renamed, same, "left_anti")
    return changes.where(kind != "update_preimage").unionByName(gone)


def _build_rows(changes: DataFrame, feed: Feed, source: DeltaSource, number: int) -> DataFrame:
    """Changes as bronze rows, unsorted; `_arrival` sorts them.

    `_arrival` is in hex: batch (8 digits), version (16), 0 for a truncate or delete and else 1 (2),
    row (16), and the feed's mark (4): within a version deletes of a key come first.
    """
    last = ~F.col(CHANGE_TYPE).isin("truncate", "delete")
    place: list[Column] = [
        F.lit(arrival_prefix(number)),
        to_hexadecimal(F.col(COMMIT_VERSION), 16),
        to_hexadecimal(last.cast("int"), 2),
        to_hexadecimal(F.monotonically_increasing_id(), 16),
        F.lit(feed_mark(feed)),
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
