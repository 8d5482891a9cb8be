"""Dropped files into bronze: each file once, in order of arrival, a batch of files per commit."""

import json
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.feed_state import FeedState, Note, old_stream
from bronze.feeds import Feed, folder
from bronze.files.batches import append_readable
from bronze.files.listing import DroppedFile, in_order, list_files
from bronze.files.overwritten import UNKNOWN, changed_files
from bronze.files.unreadable import note, noted
from bronze.storage import News
from lakehouse.config.target import Target
from lakehouse.places.place import Place
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import name

MOST_FILES = 1000


def ingest_files(
    spark: SparkSession, target: Target, feed: Feed, state: FeedState, before: int
) -> News:
    """Append what is new in the feed's folder; batches are numbered after `before`.

    Files that cannot be read are noted, and the others are ingested.
    """
    first_look = state.unreadable is None
    waiting = noted(Lake(spark, target), feed) if state.unreadable is None else state.unreadable
    files = _new_files(spark, target, feed, state, first_look)
    came, bad = News(0, {}, {}), dict[str, str]()
    for number, batch in enumerate(batches(feed, in_order(files)), before + 1):
        news, unreadable = append_readable(spark, target, feed, batch, number)
        came = came.followed(news)
        taken = {f.path: (f.length, f.changed) for f in batch if f not in unreadable}
        if taken:
            state.note(Note(news.batch, files=taken))
        bad |= {file.path: why for file, why in unreadable.items()}
    if bad != waiting:
        note(spark, target, feed, waiting, bad)
    state.unreadable = bad
    return came


def _new_files(
    spark: SparkSession, target: Target, feed: Feed, state: FeedState, first_look: bool
) -> list[DroppedFile]:
    """The files that are to be read; a first look also finds those that were overwritten."""
    taken = state.taken.files
    listed = list_files(
        spark, target, folder(target, feed), lambda path: not first_look and path in taken
    )
    if first_look:
        state.overwritten = changed_files(listed, taken)
    return [file for file in listed if file.path not in taken]


def batches(feed: Feed, files: Sequence[DroppedFile]) -> Iterator[list[DroppedFile]]:
    """The files cut by the feed's limits, 1000 files by default; a batch has one file at least."""
    most_files = feed.max_files or (MOST_FILES if feed.max_bytes is None else len(files))
    batch, size = list[DroppedFile](), 0
    for file in files:
        full = feed.max_bytes is not None and size + file.length > feed.max_bytes
        if batch and (full or len(batch) >= most_files):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.length
    if batch:
        yield batch


def recover_files(
    spark: SparkSession, target: Target, feed: Feed, state: FeedState, newest: int
) -> None:
    """Note the files that bronze holds beyond what is noted: a run was killed before it did.

    Where nothing is noted, what a stream of version 0.2 has read is noted too.
    """
    found = set[str]()
    if not state.notes:
        found = set(_files_of_stream(target, feed)) - noted(Lake(spark, target), feed).keys()
    if newest > state.taken.batch:
        bronze = spark.table(name(target, "bronze", feed.name))
        new = bronze.where(F.col("_batch") > state.taken.batch).where("_file IS NOT NULL")
        found |= {row[0] for row in new.select("_file").distinct().collect()}
    if found:
        state.note(Note(newest, files=dict.fromkeys(found, UNKNOWN)))


def _files_of_stream(target: Target, feed: Feed) -> Iterable[str]:
    """The files of the batches that a stream of version 0.2 has ended."""
    stream = old_stream(target, feed)
    if stream is None:
        return
    logs: Iterator[Place] = (stream.folder / "sources" / "0").glob("[0-9]*")
    for log in sorted(logs, key=str):
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] <= stream.offsets.get("logOffset", -1):
                yield "file:" + unquote(urlsplit(entry["path"]).path)
