"""The snapshot dates that a table has compared, as its state keeps them, and those left.

Dates are compared in order. After one that arrives late, or gets more files, the later ones are
compared again, so that the outcome is the same as if files had arrived in order.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import structs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze import contract as bronze
from lakehouse.config.table import Table
from lakehouse.errors import TableFailed
from lakehouse.storage.lake import LakeTable
from silver.changelog import bronze_rows, log
from silver.decode.protocols.snapshot_files import folder_of, folder_pattern
from silver.run import SilverTable
from silver.state.table_state import SnapshotDay, TableState


class PendingDate(NamedTuple):
    """A date to compare: its newest ingest batch, and what to read of it.

    `records` are the rows of `batches`; both are None where all rows of the date are read.
    """

    day: date | None
    newest: int
    records: int | None
    batches: list[int] | None


Days = Mapping[date | None, SnapshotDay]


def days_of(state: TableState) -> dict[date | None, SnapshotDay]:
    """The snapshot dates of a table's state, by date."""
    return {day.effective_date: day for day in state.days}


def reopen_dates(days: Days, since: date) -> dict[date | None, SnapshotDay]:
    """The dates, of which those from `since` on are not compared yet."""
    return {
        at: structs.replace(entry, batch=None, feed_batch=0) if at and at >= since else entry
        for at, entry in days.items()
    }


def find_last_batch(days: Iterable[SnapshotDay]) -> int:
    """The newest batch of the log that compared one of these dates; 0 without any."""
    return max((day.batch or 0 for day in days), default=0)


def find_read_batch(days: Days, day: date | None) -> int:
    """The newest ingest batch of a date that was compared; 0 without any."""
    entry = days.get(day)
    return 0 if entry is None or entry.batch is None else entry.feed_batch


def list_pending(table: SilverTable, days: Days, done: int, newest: int) -> list[PendingDate]:
    """The dates to compare, in order; files of no date first.

    Args:
        table: the table.
        days: the dates of the table's state.
        done: the ingest batch up to which everything was compared.
        newest: the newest ingest batch.
    """
    rows = read_feed(table).where((F.col("_batch") > done) & (F.col("_batch") <= newest))
    files = rows.groupBy("_file", "_batch").agg(F.count(F.lit(1)).alias("records"))
    grouped = files.groupBy(effective_date(F.col("_file"), table.config).alias("day")).agg(
        F.max("_batch").alias("newest"),
        F.sum("records").alias("records"),
        F.collect_set("_batch").alias("batches"),
    )
    arrived = {row["day"]: PendingDate(*row) for row in grouped.collect()}
    # A date that was compared before is read in full, from whichever ingest batches.
    new = [
        pending._replace(records=None, batches=None) if pending.day in days else pending
        for pending in arrived.values()
        if pending.newest > find_read_batch(days, pending.day)
    ]
    again = [
        PendingDate(at, newest, None, None)
        for at, entry in days.items()
        if entry.batch is None and at not in arrived
    ]
    return sorted([*new, *again], key=lambda pending: pending.day or date.min)


def effective_date(file: Column, table: Table) -> Column:
    """The date in a file's path; null where the folder below the table's is no date since 1970."""
    day = F.regexp_extract(file, folder_pattern(table), 1).try_cast("date")
    return F.when(day >= F.lit("1970-01-01").cast("date"), day)


def read_feed(table: SilverTable) -> DataFrame:
    """All rows of the table's feed in bronze."""
    return bronze_rows.read_feed(table.lake, feed_of(table.config))


def read_rows(table: SilverTable, pending: PendingDate) -> DataFrame:
    """The rows of a date to compare, as they lie in bronze."""
    day = F.lit(pending.day.isoformat() if pending.day else None).cast("date")
    rows = read_feed(table).where(F.col("_batch") <= pending.newest)
    if pending.batches is not None:
        rows = rows.where(F.col("_batch").isin(pending.batches))
    of_day = rows.where(effective_date(F.col("_file"), table.config).eqNullSafe(day))
    return of_day.withColumn("_feed", F.lit(feed_of(table.config)))


def feed_of(table: Table) -> str:
    """The bronze table of the snapshot files."""
    return bronze.feed_name(table, table.feeds[0])


def refuse_unreadable(table: SilverTable, day: date | None) -> None:
    """Refuses a date with unreadable files: without these, a full one would delete their rows.

    Raises:
        TableFailed: files of this date could not be read.
    """
    listed = LakeTable(table.lake, "bronze", bronze.unreadable_name(feed_of(table.config)))
    if day is None or not listed.exists:
        return
    files = [row["file"] for row in listed.read().collect()]
    mine = [file for file in files if folder_of(file, table.config) == day.isoformat()]
    if mine:
        message = f"the day {day} waits for files that cannot be read: {', '.join(mine[:5])}"
        raise TableFailed(table.name, f"{message}; replace or remove them and run again")


class RowKind(NamedTuple):
    """Rows of one batch that are alike: how many, and their newest ingest batch."""

    batch: int
    letter: str | None
    operation: str | None
    reason: str | None
    sequence: str | None
    records: int
    feed_batch: int


def read_row_kinds(table: SilverTable, applied: int) -> list[RowKind]:
    """The kinds of log rows above the batch `applied`, in order of their batches, by one query.

    Grouped by columns of a few values each, which needs no sorting.
    """
    if not table.log.exists:
        return []
    rows = log.read_log(table).where(F.col("_batch") > applied)
    alike = rows.groupBy("_batch", "_letter", "_operation", "_reason", "_sequence")
    counted = alike.agg(F.count(F.lit(1)).alias("records"), F.max("_feed_batch").alias("newest"))
    return sorted((RowKind(*row) for row in counted.collect()), key=lambda kind: kind.batch)


def count_outcomes(kinds: Sequence[RowKind], days: Days) -> dict[str, int]:
    """The counts of a run that applied these kinds of rows.

    What a delta did not supply is counted where rows of it have letters: in the batch that compared
    it, and not in a later one of repeats only, which the date names as well.
    """
    counts: dict[str, int] = {"records": 0}
    compared = {kind.batch for kind in kinds if kind.letter}
    for kind in kinds:
        outcome = f"dead_letter:{kind.reason}" if kind.reason else str(kind.letter or "duplicate")
        counts[outcome] = counts.get(outcome, 0) + kind.records
        counts["records"] += 0 if kind.letter == "D" else kind.records
    lacking = sum(day.not_supplied or 0 for day in days.values() if day.batch in compared)
    return counts | ({"X": lacking} if lacking else {})
