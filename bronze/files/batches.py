"""A batch of dropped files as rows of bronze, in one commit."""

import zlib
from collections.abc import Sequence
from datetime import datetime, timezone

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import WHOLE_RECORD_FORMATS, beginning
from bronze.feeds import Feed, folder
from bronze.files.file_kinds import UnreadableFile
from bronze.files.json_files import read_records
from bronze.files.lines import lines
from bronze.files.listing import DroppedFile, is_seen_here
from bronze.files.records import SIGNS, with_origin, without_origin
from bronze.files.unreadable import find_unreadable
from bronze.storage import News, append_here, append_spread, hexadecimal
from lakehouse.config.target import Target
from lakehouse.spark.spark_failures import SPARK_FAILURES

FEW_BYTES = 1 << 20
"""So little of JSON is read by this process: a query of Spark takes longer."""

_ORIGIN = {
    "_whole": pa.bool_(), "_topic": pa.string(), "_partition": pa.int32(), "_offset": pa.int64(),
    "_timestamp": pa.timestamp("us", "UTC"), "_key": pa.string(), "_headers": pa.string(),
}  # fmt: skip


def append_readable(
    spark: SparkSession, target: Target, feed: Feed, files: Sequence[DroppedFile], number: int
) -> tuple[News, dict[DroppedFile, str]]:
    """Append the files in one commit; when that fails because of some of them, the others.

    Returns:
        What came, and the files that cannot be read with the reason.
    """
    if not files:
        return News(0, {}, {}), {}
    try:
        few = read_few(spark, target, feed, files, number)
        if few is not None:
            return append_here(spark, target, feed, few, number), {}
        return append_spread(spark, target, feed, rows(spark, feed, files, number), number), {}
    except (*SPARK_FAILURES, UnreadableFile):
        bad = find_unreadable(spark, feed, files)
        if not bad:
            raise
        readable = [file for file in files if file not in bad]
        came, more = append_readable(spark, target, feed, readable, number)
        return came, bad | more


def read_few(
    spark: SparkSession, target: Target, feed: Feed, files: Sequence[DroppedFile], number: int
) -> pa.Table | None:
    """The rows of a few small JSON files, in order of arrival; None where Spark is to read them."""
    found = _records_here(target, feed, files)
    if found is None:
        return None
    raw = [record for records in found for record in records]
    of_file = [at for at, records in enumerate(found) for _ in records]
    line = [at for records in found for at in range(len(records))]
    begins = [_place(number, rank) for rank in range(len(files))]
    own, now = f"{0:010X}{{:08X}}{mark(feed)}", datetime.now(timezone.utc)
    columns = {
        "_raw": pa.array(raw, pa.binary()),
        "_file": pa.array([files[at].path for at in of_file], pa.string()),
        "_line": pa.array(line, pa.int64()),
        "_batch": pa.array([number] * len(raw), pa.int64()),
        "_arrived_at": pa.array([now] * len(raw), pa.timestamp("us", "UTC")),
        "_arrival": pa.array(
            [begins[file] + own.format(at) for file, at in zip(of_file, line, strict=True)]
        ),
    }
    return pa.table(columns | _origin(spark, feed, raw))


def _records_here(
    target: Target, feed: Feed, files: Sequence[DroppedFile]
) -> list[list[bytes]] | None:
    small = feed.file_format == "json" and sum(file.length for file in files) <= FEW_BYTES
    if not small or not is_seen_here(target, folder(target, feed)):
        return None
    read = [read_records(file.here) for file in files]
    found = [records for records in read if records is not None]
    return found if len(found) == len(files) else None


def _origin(spark: SparkSession, feed: Feed, raw: list[bytes]) -> dict[str, pa.Array]:
    """The columns of `with_origin`; Spark is asked only where a whole record may be."""
    signs = [sign.encode() for sign in SIGNS]
    may_be_whole = feed.format in WHOLE_RECORD_FORMATS and any(s in r for r in raw for s in signs)
    if not may_be_whole:
        nothing = {name: pa.nulls(len(raw), kind) for name, kind in _ORIGIN.items()}
        return nothing | {"_whole": pa.array([False] * len(raw))}
    lines = spark.createDataFrame(pa.table({"_raw": pa.array(raw, pa.binary())}))
    found = with_origin(lines.selectExpr("CAST(_raw AS string)")).select(*_ORIGIN).toArrow()
    return {name: found[name].cast(kind) for name, kind in _ORIGIN.items()}


def rows(spark: SparkSession, feed: Feed, files: Sequence[DroppedFile], number: int) -> DataFrame:
    """The files' records as rows of the contract, in no order; `_arrival` tells theirs.

    `_arrival` is in hex: batch (8 digits), the file's rank in the batch (6), byte offset of the
    split (10), row (8), and the feed's mark (4), so that no two feeds share one.
    """
    shape = with_origin if feed.format in WHOLE_RECORD_FORMATS else without_origin
    found = shape(lines(spark, feed, files)).join(_listed(spark, files, number), "_url", "left")
    place = [hexadecimal(F.col("_block"), 10), hexadecimal(F.col("_row"), 8)]
    unlisted = F.raise_error(F.concat(F.lit("a file that was not listed: "), F.col("_url")))
    return found.withColumns(
        {
            "_line": F.shiftleft(F.shiftright("_block", 20), 33) + F.col("_row"),
            "_arrival": F.concat(
                F.coalesce(F.col("_place"), unlisted.cast("string")), *place, F.lit(mark(feed))
            ),
        }
    )


def mark(feed: Feed) -> str:
    """Four hex digits that are the feed's own, as good as always."""
    return f"{zlib.crc32(feed.name.encode()) & 0xFFFF:04X}"


def _place(number: int, rank: int) -> str:
    return f"{beginning(number)}{rank:06X}"


def _listed(spark: SparkSession, files: Sequence[DroppedFile], number: int) -> DataFrame:
    """The files with what is the same for every row of one.

    Spark's code for a batch then holds no constant of its own and is compiled once for all batches.
    """
    now = datetime.now(timezone.utc)
    listed = [
        (file.url, file.path, number, now, _place(number, rank)) for rank, file in enumerate(files)
    ]
    schema = "_url string, _file string, _batch bigint, _arrived_at timestamp, _place string"
    return F.broadcast(spark.createDataFrame(listed, schema))
