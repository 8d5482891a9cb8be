"""A batch of dropped files as rows of bronze, in one commit."""

import zlib
from collections.abc import Sequence
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import WHOLE_RECORD_FORMATS, beginning
from bronze.counted import Records
from bronze.feeds import Feed
from bronze.files.file_kinds import UnreadableFile
from bronze.files.lines import DroppedFile, lines
from bronze.files.records import with_origin, without_origin
from bronze.files.unreadable import find_unreadable, note
from bronze.storage import Commit, append, hexadecimal
from lakehouse.config.target import Target
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import literal, name


def append_readable(
    spark: SparkSession, target: Target, feed: Feed, files: Sequence[DroppedFile], number: int,
    commit: Commit | None,
) -> Records | None:  # fmt: skip
    """Append the files in one commit; when that fails because of some of them, the others.

    Returns:
        How many records of each topic were written, where the write could tell.
    """
    if not files:
        return {}
    try:
        return append(spark, target, feed, rows(spark, feed, files, number), commit)
    except (*SPARK_FAILURES, UnreadableFile):
        bad = find_unreadable(spark, feed, files)
        if not bad:
            raise
        note(spark, target, feed, bad)
        readable = [file for file in files if file not in bad]
        return append_readable(spark, target, feed, readable, number, commit)


def rows(spark: SparkSession, feed: Feed, files: Sequence[DroppedFile], number: int) -> DataFrame:
    """The files' records as rows of the contract, in no order; `_arrival` tells theirs.

    `_arrival` is in hex: batch (8 digits), the file's rank in the batch (6), byte offset of the
    split (10), row (8), and the feed's mark (4), so that no two feeds share one.
    """
    shape = with_origin if feed.format in WHOLE_RECORD_FORMATS else without_origin
    found = shape(lines(spark, feed, files)).join(_listed(spark, files, number), "_url", "left")
    place = [hexadecimal(F.col("_block"), 10), hexadecimal(F.col("_row"), 8)]
    return found.withColumns(
        {
            "_line": F.shiftleft(F.shiftright("_block", 20), 33) + F.col("_row"),
            "_arrival": F.concat(F.col("_place"), *place, F.lit(mark(feed))),
        }
    )


def mark(feed: Feed) -> str:
    """Four hex digits that are the feed's own, as good as always."""
    return f"{zlib.crc32(feed.name.encode()) & 0xFFFF:04X}"


def in_bronze(
    spark: SparkSession, target: Target, feed: Feed, paths: Sequence[str], until: int
) -> set[str]:
    """Which of the files have records in bronze, up to a batch."""
    listed = ", ".join(literal(path) for path in paths)
    bronze = spark.table(name(target, "bronze", feed.name))
    found = bronze.where(f"_batch <= {until} AND _file IN ({listed})").select("_file").distinct()
    return {row[0] for row in found.collect()}


def _listed(spark: SparkSession, files: Sequence[DroppedFile], number: int) -> DataFrame:
    """The files with what is the same for every row of one.

    Spark's code for a batch then holds no constant of its own and is compiled once for all batches.
    """
    now = datetime.now(timezone.utc)
    listed = [
        (file.url, file.path, number, now, f"{beginning(number)}{rank:06X}")
        for rank, file in enumerate(files)
    ]
    schema = "_url string, _file string, _batch bigint, _arrived_at timestamp, _place string"
    return F.broadcast(spark.createDataFrame(listed, schema))
