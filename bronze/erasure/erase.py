"""Deletes records from bronze: the one exception to append-only; names the files that had them.

Bronze knows the files of a key until its records are deleted. From then on the ledger's entry of
the erasure keeps digests of their paths.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bronze.contract import feed_name, mended_name
from bronze.files.listing import on_disk
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.place import Place, list_below, to_place
from lakehouse.places.settings import is_reached
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake


def feeds_of(lake: Lake, table: Table) -> list[str]:
    """The table's feeds that exist, and the tables of their mended records."""
    feeds = dict.fromkeys(feed_name(table, source) for source in table.feeds)
    tables = [*feeds, *map(mended_name, feeds)]
    return [feed for feed in tables if lake.exists("bronze", feed)]


def find_dropped_files(lake: Lake, table: Table, records: DataFrame | None) -> list[str]:
    """The dropped files of the table's records, which `_feed` and `_arrival` identify."""
    if records is None:
        return []
    paths: set[str] = set()
    for feed in feeds_of(lake, table):
        mine = _find_records(lake, feed, records)
        rows = mine.where("_file IS NOT NULL").select("_file").distinct().collect()
        paths |= {row["_file"] for row in rows}
    return sorted(paths)


def note_files(entry: Entry, files: Iterable[str]) -> Entry:
    """The entry with digests of the dropped files that an erasure is about to forget."""
    return entry.model_copy(update={"message": json.dumps([*map(_to_digest, files)])})


def find_noted_files(lake: Lake, table: Table, run_id: str) -> list[Place]:
    """The files below the table's landing folders that the erasure, or an earlier one, noted."""
    entries = ledger.read_entries(lake).where(F.col("run_id") == run_id)
    noted = entries.where("status = 'begun' AND message IS NOT NULL").select("message").collect()
    digests = {digest for row in noted for digest in json.loads(row["message"])}
    every = list_landing_files(lake.target, table) if digests else ()
    return [file for file in every if _to_digest(str(file)) in digests]


def find_landing_folders(target: Target, table: Table) -> list[Place]:
    """The table's landing folders that this process sees."""
    if not is_reached(target, target.landing):
        return []
    paths = dict.fromkeys(source.path for source in table.feeds if source.path is not None)
    folders = [to_place(target, target.landing, path) for path in paths]
    return [folder for folder in folders if folder.is_dir()]


def list_landing_files(target: Target, table: Table) -> list[Place]:
    """The files below the table's landing folders, whether they are complete or not."""
    every = (file for folder in find_landing_folders(target, table) for file in list_below(folder))
    return [file for file in every if file.is_file()]


def _to_digest(file: str) -> str:
    return hashlib.sha256(on_disk(file).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def remove_records(lake: Lake, feeds: Sequence[str], records: DataFrame) -> int:
    """Deletes the records, which `_feed` and `_arrival` identify; returns how many."""
    parts = [(feed, _find_records(lake, feed, records)) for feed in feeds]
    return sum(_delete_rows(lake, feed, part) for feed, part in parts)


def remove_unclaimed(lake: Lake, table: Table, pattern: str) -> int:
    """Deletes the records without a topic that match the pattern; returns how many.

    In a folder that several topics share, a line that cannot be read has no topic.
    """
    shared = {feed_name(table, source) for source in table.feeds if source.topic is not None}
    tables = sorted([*shared, *map(mended_name, shared)])
    there = [feed for feed in tables if lake.exists("bronze", feed)]
    removed = 0
    for feed in there:
        rows = lake.spark.table(lake.name("bronze", feed))
        unclaimed = rows.where(F.col("_topic").isNull() & F.col("_raw").rlike(pattern))
        removed += _delete_rows(lake, feed, unclaimed)
    return removed


def _find_records(lake: Lake, feed: str, records: DataFrame) -> DataFrame:
    of = F.col("_feed").isin(feed, feed.removeprefix(mended_name("")))
    wanted = records.where(of).select("_arrival")
    return lake.spark.table(lake.name("bronze", feed)).join(wanted, "_arrival", "left_semi")


def _delete_rows(lake: Lake, feed: str, rows: DataFrame) -> int:
    """Deletes rows by `_arrival`: Delta logs the statement, which must not contain values."""
    count = rows.count()
    if count:
        lake.spark.sql(
            f"MERGE INTO {lake.name('bronze', feed)} t USING {{rows}} s"
            " ON t._arrival = s._arrival WHEN MATCHED THEN DELETE",
            rows=rows.select("_arrival"),
        )
    return count
