"""Dropped files into bronze: each file once, in order of arrival, a batch of files per commit."""

from collections.abc import Iterator, Sequence

from pyspark.sql import functions as F

from bronze.feed_state import FeedState, Note
from bronze.feeds import Feed, feed_folder
from bronze.files.batches import append_readable
from bronze.files.listing import DroppedFile, in_order, list_files
from bronze.files.overwritten import CHANGED, UNKNOWN, changed_files
from bronze.files.unreadable import read_unreadable, record_unreadable
from bronze.storage import News
from lakehouse.storage.lake import Lake

MOST_FILES = 1000


def ingest_files(lake: Lake, feed: Feed, state: FeedState, before: int) -> News:
    """Appends the new files of the feed's folder, in batches numbered after `before`.

    Files that cannot be read are recorded, and the others are ingested.
    """
    waiting, first_look = state.unreadable, state.unreadable is None
    if waiting is None:
        waiting = read_unreadable(lake, feed)
    files = _new_files(lake, feed, state, first_look)
    came, bad = News(0, {}, {}), dict[str, str]()
    for number, batch in enumerate(cut_batches(feed, in_order(files)), before + 1):
        news, unreadable = append_readable(lake, feed, batch, number)
        came = came.combine(news)
        taken = {f.path: (f.length, f.changed) for f in batch if f not in unreadable}
        if taken:
            state.add_note(Note(news.batch, files=taken, unnumbered=news.unnumbered))
        bad |= {file.path: why for file, why in unreadable.items()}
    if bad != waiting:
        record_unreadable(lake, feed, waiting, bad)
    state.unreadable = bad
    return came


def _new_files(lake: Lake, feed: Feed, state: FeedState, first_look: bool) -> list[DroppedFile]:
    """The files that are not read yet; a first listing also finds overwritten files."""
    taken = state.taken.files
    listed = list_files(
        lake, feed_folder(lake.target, feed), lambda path: not first_look and path in taken
    )
    if first_look:
        state.overwritten = changed_files(listed, taken)
    return [file for file in listed if file.path not in taken]


def cut_batches(feed: Feed, files: Sequence[DroppedFile]) -> Iterator[list[DroppedFile]]:
    """Splits the files by the feed's limits, default 1000 files; a batch has at least one file."""
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


def recover_files(lake: Lake, feed: Feed, state: FeedState, newest: int) -> None:
    """Adds a note of files that bronze has without one, because a run was killed.

    One that was changed after its lines came is noted as another version: it was overwritten.
    """
    if newest > state.taken.batch:
        bronze = lake.spark.table(lake.name("bronze", feed.name))
        new = bronze.where(F.col("_batch") > state.taken.batch).where("_file IS NOT NULL")
        came = new.groupBy("_file").agg(F.unix_millis(F.min("_arrived_at")))
        arrived = {row[0]: row[1] for row in came.collect()}
        if arrived:
            folder = feed_folder(lake.target, feed)
            listed = list_files(lake, folder, lambda path: path not in arrived)
            versions = dict.fromkeys(arrived, UNKNOWN) | {
                f.path: (f.length, f.changed) if f.changed <= arrived[f.path] else CHANGED
                for f in listed
            }
            state.add_note(Note(newest, files=versions))
