"""A part of the change log put in order: with order keys, and ready to be folded."""

from collections.abc import Mapping
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.config.table import Table
from silver.contract import DELETE, UPSERT
from silver.fold.order_key import order_sql
from silver.fold.rules import Cutoff
from silver.state.epochs import Epoch, sequence_sql
from silver.storage.row_columns import column

# Changes of a batch whose keys are few enough to be held by every task: 100 MB or so.
FEW = 1_000_000


class Batch(NamedTuple):
    """What one table run applies.

    `changes` are upserts and deletes with order keys, `_new` where they are the batch's own. Where
    `of_whole_keys` says so they are all changes of their keys, earlier ones too. `partial` names
    columns that some of them do not carry; `seen_partial` tells whether a stored row may have
    columns with an order of their own; `cutoffs` are those in force, oldest first. `late` are
    columns that rows of earlier batches did not carry, with the batch that brought them. `size` is
    how many changes there are, `new` how many of them are the batch's own, and `first` their lowest
    order key, where these are known.
    """

    number: int
    changes: DataFrame
    fields: list[StructField]
    partial: list[str]
    cutoffs: list[Cutoff]
    cutoff_is_new: bool
    seen_partial: bool
    of_whole_keys: bool = False
    late: Mapping[str, int] = MappingProxyType({})
    size: int | None = None
    first: bytes | None = None
    new: int | None = None

    @property
    def few(self) -> bool:
        """Whether its keys can be held by every task."""
        return self.size is not None and self.size <= FEW

    @property
    def cutoff(self) -> bytes | None:
        """The order key below which no change counts any more; None without one."""
        return self.cutoffs[-1].order if self.cutoffs else None


def to_fold(batch: Batch) -> DataFrame:
    """The changes of a batch; without `_absent` where each of them carries every column."""
    partial = batch.partial or batch.late or batch.of_whole_keys
    return batch.changes if partial else batch.changes.drop("_absent")


def to_all(rows: DataFrame, few: bool) -> DataFrame:
    """The rows, sent to every task where they are few."""
    return F.broadcast(rows) if few else rows


def of_keys(rows: DataFrame, keys: DataFrame, table: Table, how: str = "left_semi") -> DataFrame:
    """The rows of some keys, or with `left_anti` those of all others; a null equals a null."""
    if not table.nullable_keys:
        return rows.join(keys, table.keys, how)
    names = {key: f"__k{at}" for at, key in enumerate(table.keys)}
    same = [column(k).eqNullSafe(F.col(n)) for k, n in names.items()]
    others = keys.select(*[column(k).alias(n) for k, n in names.items()])
    return rows.join(others, reduce(and_, same), how)


def order_of(table: Table, epochs: list[Epoch]) -> Column:
    """The order key of a row of the table's change log; null without a sequence."""
    sequence = sequence_sql(epochs) if table.format == "debezium" else "_sequence"
    return F.when(F.col("_sequence").isNotNull(), F.expr(order_sql(sequence)))


def ordered(rows: DataFrame, table: Table, epochs: list[Epoch]) -> DataFrame:
    """Log rows that can be applied, with their order keys."""
    sound = rows.where(F.col("_reason").isNull())
    return sound.withColumn("_order", order_of(table, epochs))


def rejected(rows: DataFrame, table: Table, epochs: list[Epoch]) -> DataFrame:
    """Log rows that cannot be applied, with their order keys where their sequence is known."""
    dead = rows.where(F.col("_reason").isNotNull())
    return dead.withColumn("_order", order_of(table, epochs))


def keyed(rows: DataFrame) -> DataFrame:
    """Upserts and deletes only."""
    return rows.where(F.col("_operation").isin(UPSERT, DELETE))
