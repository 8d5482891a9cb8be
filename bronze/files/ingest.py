"""Dropped files into bronze: each file once, in order of arrival, a batch of files per commit.

A stream only lists the files: locally Spark's file source, on Databricks Auto Loader. Each
micro-batch reads the files it was shown. Killed anywhere, the stream shows the same files again
under the same batch id, and Delta skips the append when that id is committed already.
"""

from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bronze.checkpoint import Checkpoint, may_show_again
from bronze.counted import News, Records, total
from bronze.feeds import Feed, folder
from bronze.files.batches import append_readable, in_bronze
from bronze.files.lines import DroppedFile
from bronze.files.unreadable import find_unreadable, forget, noted, still_there
from bronze.storage import Commit
from bronze.streams import run_to_end
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError

MOST_FILES = 1000
_LISTING = "path string, modificationTime timestamp, length bigint, content binary"
# A glob for names that do not begin with . or _ and do not end in .tmp; globs know no "not".
FINISHED = "{[!._],[!._]*[!p],[!._]p,[!._]*[!m]p,[!._]mp,[!._]*[!t]mp,[!._]tmp,[!._]*[!.]tmp}"


def ingest_files(
    spark: SparkSession, target: Target, feed: Feed, place: Checkpoint, highest: int
) -> News | None:
    """Append what is new in the feed's folder, made when missing; None where bronze is to be asked.

    Batches are numbered after `highest`. A batch that an earlier run committed is skipped
    and leaves a gap in the numbers. Files that cannot be read are noted and the others ingested.
    """
    written = _retry_unreadable(spark, target, feed, highest + 1)
    number, retried = highest + len(written), bool(written)
    again = may_show_again(place)

    def ingest_batch(listed: DataFrame, batch_id: int) -> None:
        nonlocal number
        number += 1
        files = in_order(DroppedFile(*row) for row in listed.collect())
        files = _unknown(listed.sparkSession, target, feed, place, files)
        commit = Commit(place.id, batch_id, again)
        told = append_readable(listed.sparkSession, target, feed, files, number, commit)
        written.append((number, told))

    stream = _listing(spark, target, feed).writeStream.foreachBatch(ingest_batch)
    stream = stream.option("checkpointLocation", place.folder)
    came = run_to_end(stream) or retried
    return total(highest, written) if written or not came else None


def in_order(files: Iterable[DroppedFile]) -> list[DroppedFile]:
    """The files by time of change, then path."""
    return sorted(files, key=lambda file: (file.changed_at, file.path))


def _listing(spark: SparkSession, target: Target, feed: Feed) -> DataFrame:
    _make_folder(folder(target, feed))
    stream = spark.readStream.format(_source(target)).schema(_LISTING)
    stream = stream.options(**listing_options(target, feed))
    columns = ("path", "modificationTime", "length", "_metadata.file_path")
    return stream.load(folder(target, feed)).select(*columns)


def listing_options(target: Target, feed: Feed) -> dict[str, str]:
    """Options of the stream that lists the feed's files; back-pressure is 1000 files by default.

    Files are never too old for it: Spark's own `maxFileAge` would pass over those that were changed
    a week before the newest one.

    Raises:
        ConfigurationError: both limits are given, and Spark's file source takes one.
    """
    shared = {"recursiveFileLookup": "true", "pathGlobFilter": FINISHED}
    limits = {"maxFilesPerTrigger": feed.max_files, "maxBytesPerTrigger": feed.max_bytes}
    given = {option: str(limit) for option, limit in limits.items() if limit}
    limit = given or {"maxFilesPerTrigger": str(MOST_FILES)}
    if _source(target) == "cloudFiles":
        own = {"format": "binaryFile", **limit}
        return shared | {f"cloudFiles.{option}": value for option, value in own.items()}
    if len(limit) > 1:
        raise _both_limits(feed)
    return shared | limit | {"maxFileAge": "365000d", "ignoreMissingFiles": "true"}


def _both_limits(feed: Feed) -> ConfigurationError:
    return ConfigurationError(
        ", ".join(feed.tables),
        "source.max_bytes_per_trigger",
        "max_files_per_trigger for the same folder",
        "one of the two",
        "remove one of them",
    )


def _source(target: Target) -> str:
    return "cloudFiles" if target.kind == "databricks" else "binaryFile"


def _make_folder(path: str) -> None:
    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)


def _unknown(
    spark: SparkSession, target: Target, feed: Feed, place: Checkpoint, files: list[DroppedFile]
) -> list[DroppedFile]:
    """The files that no batch older than the checkpoint has; asks only after it was lost."""
    if not place.known:
        return files
    found = in_bronze(spark, target, feed, [file.path for file in files], place.known)
    return [file for file in files if file.path not in found]


def _retry_unreadable(
    spark: SparkSession, target: Target, feed: Feed, number: int
) -> list[tuple[int, Records | None]]:
    """Try the noted files again as batch `number`; gives that batch, if it came to one."""
    waiting = list(noted(spark, target, feed))
    if not waiting:
        return []
    read = in_bronze(spark, target, feed, waiting, number)
    files = in_order(still_there(spark, [path for path in waiting if path not in read]))
    bad = find_unreadable(spark, feed, files) if files else {}
    readable = [file for file in files if file not in bad]
    told = append_readable(spark, target, feed, readable, number, None)
    kept = {file.path for file in bad}
    forget(spark, target, feed, [path for path in waiting if path not in kept])
    return [(number, told)] if readable else []
