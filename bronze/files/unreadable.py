"""Dropped files that cannot be read: they are recorded, left out, and tried again on every run.

`bronze.FEED_unreadable` (created when first needed) has one row per such file. The row is deleted
when the file is read or removed from the folder; until then the feed's runs fail.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bronze.contract import unreadable_name
from bronze.feeds import Feed, list_feeds
from bronze.files.listing import DroppedFile
from lakehouse.config.table import Table
from lakehouse.spark.failures import describe_failure
from lakehouse.storage.lake import Lake
from lakehouse.storage.landing import from_landing
from lakehouse.storage.names import literal
from lakehouse.storage.writing import DeclaredTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_NAMED = 3
COLUMNS = (
    ("file", "string", "the file as Spark names it"),
    ("message", "string", "why it cannot be read"),
    ("at", "timestamp", "when a run could not read it first"),
)


def find_unreadable(
    spark: "SparkSession", feed: Feed, files: Sequence[DroppedFile]
) -> dict[DroppedFile, str]:
    """Which of the files cannot be read, and why, by bisecting the list."""
    from pyspark.sql import functions as F

    from bronze.files.file_kinds import UnreadableFile
    from bronze.files.lines import read_file_records
    from lakehouse.spark.spark_failures import SPARK_FAILURES

    try:
        read_file_records(spark, feed, files).agg(F.sum(F.length("_raw"))).collect()
    except (*SPARK_FAILURES, UnreadableFile) as failure:
        if len(files) == 1:
            return {files[0]: describe_failure(failure)}
        middle = len(files) // 2
        first, second = files[:middle], files[middle:]
        return find_unreadable(spark, feed, first) | find_unreadable(spark, feed, second)
    return {}


def record_unreadable(
    lake: Lake, feed: Feed, before: Mapping[str, str], now: Mapping[str, str]
) -> None:
    """Updates the table of unreadable files from those before (`before`) to those of this run."""
    gone = before.keys() - now.keys()
    if gone:
        listed = ", ".join(map(literal, gone))
        lake.spark.sql(
            f"DELETE FROM {lake.name('bronze', unreadable_name(feed.name))}"
            f" WHERE file IN ({listed})"
        )
    at = datetime.now(timezone.utc)
    new = [(file, why) for file, why in now.items() if file not in before]
    values = [{"file": file, "message": why, "at": at} for file, why in new]
    _declare_table(feed).append(lake, values)


def read_unreadable(lake: Lake, feed: Feed) -> dict[str, str]:
    """Path and message of every file that cannot be read yet."""
    table = unreadable_name(feed.name)
    if not lake.exists("bronze", table):
        return {}
    rows = lake.ask(f"SELECT file, message FROM {lake.name('bronze', table)}")
    return {row["file"]: row["message"] for row in rows}


def unreadable_files(lake: Lake, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a sentence for each file that its feeds could not read; the first few by name."""
    warnings: dict[str, list[str]] = {}
    for feed in list_feeds(tables):
        files = sorted(read_unreadable(lake, feed).items()) if feed.path is not None else []
        texts = [f"{from_landing(p, lake.target)} cannot be read: {why}" for p, why in files]
        more = [f"{len(texts) - MOST_NAMED:,} more files cannot be read"]
        texts = texts if len(texts) <= MOST_NAMED else [*texts[:MOST_NAMED], *more]
        for table in feed.tables if texts else ():
            sentences = [f"{text}; do: mend or remove it, then run again" for text in texts]
            warnings.setdefault(table, []).extend(sentences)
    return warnings


def _declare_table(feed: Feed) -> DeclaredTable:
    comment = f"files of {feed.name} that could not be read yet"
    return DeclaredTable("bronze", unreadable_name(feed.name), comment, COLUMNS)
