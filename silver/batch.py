"""A part of the change log put in order: stamped, above the floors, and ready to be applied."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.table import Table
from silver.built import NOTHING, Built
from silver.compact import stamp
from silver.contract import DELETE, UPSERT
from silver.epochs import Epoch, in_epochs
from silver.snapshots import TableChanges, Truncate
from silver.summary import Summary

# Changes of a batch whose keys are few enough to be held by every task: 100 MB or so.
FEW = 1_000_000


class Seen(NamedTuple):
    """What a table has applied so far.

    Its newest batch, the newest ingest batch of each of its feeds that is in there, whether it met
    partial changes, heirs or ties, its snapshots and truncates, what it was built with (see
    `silver.built`), and the source time (µs since 1970) up to which its tombstones are purged.
    Of a table with `max_staleness` also how many records of the change log the ledger counts as
    `pending`, and when the last run that applied any began (µs since 1970).
    What only a run remembers: how many seconds the last apply took, what the change log holds above
    the batch, and the highest stamp that the table and the log have.
    """

    batch: int = 0
    positions: Mapping[str, int] = MappingProxyType({})
    partial: bool = False
    heirs: bool = False
    ties: bool = False
    whole: TableChanges = TableChanges([], [])
    built: Built = NOTHING
    horizon: int | None = None
    pending: int = 0
    applied_at: int | None = None
    took: float | None = None
    waits: Summary | None = None
    highest: str | None = None


class Batch(NamedTuple):
    """What one pass applies.

    `changes` are the stamped upserts and deletes; `partial` names the columns that some of them do
    not carry; `seen_partial` tells whether an earlier batch had such changes; `floors` are the
    truncates in force, oldest first. `of_keys` are all changes of the batch's keys, earlier ones
    too, where those must be folded together (see `silver.lives`). `late` are columns that rows of
    earlier batches did not carry, with the batch that brought them. `size` is how many changes it
    has, where that is known. `told` takes the rows that a write of it was seen to write, by class.
    """

    number: int
    changes: DataFrame
    fields: list[StructField]
    partial: list[str]
    floors: list[Truncate]
    floor_is_new: bool
    seen_partial: bool
    of_keys: DataFrame | None = None
    late: Mapping[str, int] = MappingProxyType({})
    size: int | None = None
    told: list[Mapping[str, int]] | None = None

    @property
    def few(self) -> bool:
        """Whether its keys can be held by every task."""
        return self.size is not None and self.size <= FEW

    @property
    def floor(self) -> str | None:
        """The stamp below which nothing counts any more; None without a truncate in force."""
        return self.floors[-1].stamp if self.floors else None


def source_of(rows: DataFrame, batch: Batch) -> DataFrame:
    """Rows that a batch writes, as the source of a MERGE.

    What it has of a batch of few changes is sent to every task: then two of its three joins move no
    row of the table.
    """
    return to_all(rows, batch.few)


def to_all(rows: DataFrame, few: bool) -> DataFrame:
    """The rows, sent to every task where they are few."""
    return F.broadcast(rows) if few else rows


def stamped(rows: DataFrame, table: Table, epochs: list[Epoch]) -> DataFrame:
    """Log rows that can be applied, with their place in the total order."""
    sound = rows.where(F.col("_reason").isNull())
    placed = in_epochs(sound, epochs) if table.format == "debezium" else sound
    return placed.withColumn("_stamp", stamp())


def rejected(rows: DataFrame, table: Table, epochs: list[Epoch]) -> DataFrame:
    """Log rows that cannot be applied, with their place in the total order where it is known."""
    dead = rows.where(F.col("_reason").isNotNull())
    dead = dead.withColumn("_own_sequence", F.col("_sequence"))
    placed = in_epochs(dead, epochs) if table.format == "debezium" else dead
    known = F.when(F.col("_own_sequence").isNotNull(), stamp())
    own = placed.withColumn("_stamp", known).drop("_sequence")
    return own.withColumnRenamed("_own_sequence", "_sequence")


def keyed(rows: DataFrame) -> DataFrame:
    """Upserts and deletes only."""
    return rows.where(F.col("_operation").isin(UPSERT, DELETE))
