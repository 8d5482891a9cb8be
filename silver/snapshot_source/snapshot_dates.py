"""Which snapshot files a table has compared, as its state keeps them, and what is to be compared.

Days are compared in order. One that arrives late, or gets more files, takes the later ones along:
they are compared anew after it, so that the outcome is that of arrival in order.
"""

from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import contract as bronze
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import TableFailed
from lakehouse.storage import names
from silver.decode.protocols.snapshot_files import folder_of, folder_pattern
from silver.state.table_state import SnapshotDay, TableState


class Pending(NamedTuple):
    """An extract to compare: its newest ingest batch, and those that hold it (None: any)."""

    day: date | None
    newest: int
    batches: list[int] | None


Days = Mapping[date | None, SnapshotDay]


def days_of(state: TableState) -> dict[date | None, SnapshotDay]:
    """The snapshot files known so far, by date."""
    return {day.effective_date: day for day in state.days}


def compared_since(days: Days, day: date) -> list[date]:
    """The dates from `day` on that are compared already."""
    return [at for at, known in days.items() if known.batch is not None and at and at >= day]


def pending(
    spark: SparkSession, target: Target, table: Table, days: Days, done: int, newest: int
) -> list[Pending]:
    """What there is to compare, in order; files of no date first.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        days: what is known.
        done: ingest batch up to which everything was compared.
        newest: ingest batch up to which there is something to read.
    """
    day = effective_date(F.col("_file"), table)
    rows = feed(spark, target, table).where((F.col("_batch") > done) & (F.col("_batch") <= newest))
    found = rows.groupBy(day.alias("day")).agg(
        F.max("_batch").alias("newest"), F.collect_set("_batch").alias("batches")
    )
    arrived = {row["day"]: Pending(*row) for row in found.collect()}
    new = [_whole(one, days) for one in arrived.values() if one.newest > _read(days, one.day)]
    again = [
        Pending(at, newest, None)
        for at, known in days.items()
        if known.batch is None and at not in arrived
    ]
    return sorted([*new, *again], key=lambda one: one.day or date.min)


def effective_date(file: Column, table: Table) -> Column:
    """The date in a file's path; null where the folder below the table's is no day since 1970."""
    day = F.regexp_extract(file, folder_pattern(table), 1).try_cast("date")
    return F.when(day >= F.lit("1970-01-01").cast("date"), day)


def feed(spark: SparkSession, target: Target, table: Table) -> DataFrame:
    """All rows of the table's feed in bronze."""
    return spark.table(names.name(target, "bronze", feed_of(table)))


def feed_of(table: Table) -> str:
    """The bronze table of the extracts."""
    return bronze.feed_name(table, table.feeds[0])


def refuse_unreadable(spark: SparkSession, target: Target, table: Table, day: date | None) -> None:
    """A full extract that misses a file would delete that file's rows: it waits.

    Raises:
        TableFailed: files of this extract could not be read.
    """
    listed = bronze.unreadable_name(feed_of(table))
    if day is None or not names.exists(spark, target, "bronze", listed):
        return
    files = [row["file"] for row in spark.table(names.name(target, "bronze", listed)).collect()]
    mine = [file for file in files if folder_of(file, table) == day.isoformat()]
    if mine:
        message = f"the extract of {day} waits for files that cannot be read: {', '.join(mine[:5])}"
        raise TableFailed(table.table, f"{message}; replace or remove them and run again")


def _read(days: Days, day: date | None) -> int:
    known = days.get(day)
    return 0 if known is None or known.batch is None else known.feed_batch


def _whole(one: Pending, days: Days) -> Pending:
    """An extract that is known already is read in full, wherever its rows lie."""
    return one._replace(batches=None) if one.day in days else one
