"""A key's last life: what it went through since the delete before its newest upsert.

Two kinds of table need more than the newest value of each column, so the keys of a batch are folded
anew from the change log, all their changes together: those whose groups of columns have orders of
their own (which of a group's values counts after a delete is not known from the newest one), and
those that keep deleted rows in sight and receive partial changes (what a deleted row looked like
ends with the delete before). So is a batch that may hold one of several changes of one key and
sequence once more: the row does not tell that it came before the one that stands.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.table import Table
from silver.row_columns import column
from silver.contract import DELETE, UPSERT


def folds_keys_anew(table: Table, partial: bool) -> bool:
    """Whether a batch brings all changes of its keys together; `partial`: some lack columns."""
    if not table.keys:
        return False
    flagged = table.on_delete == "flag" and table.stored_as_scd_type == 1
    return bool(table.sequence_groups) or (flagged and partial)


def of_same_keys(changes: DataFrame, pending: DataFrame, keys: list[str]) -> DataFrame:
    """Those changes whose keys the pending log rows change."""
    changed = pending.where(F.col("_operation").isin(UPSERT, DELETE))
    touched = changed.select(*[column(k) for k in keys]).distinct()
    return changes.join(touched, keys, "left_semi")


def without_repeats(changes: DataFrame, keys: list[str], *before: Column) -> DataFrame:
    """Stamped changes, a redelivered one once: by `before`, and then as it was applied first.

    A replayed dead letter may have arrived earlier than what was applied.
    """
    place = F.substring_index("_stamp", " ", 1)
    same = Window.partitionBy(*[column(k) for k in keys], "_operation", "_digest", place)
    first = F.row_number().over(same.orderBy(*before, "_batch", "_stamp"))
    return changes.withColumn("_repeat", first).where("_repeat = 1").drop("_repeat")


def last_lives(changes: DataFrame, keys: list[str]) -> DataFrame:
    """All changes of some keys, without the upserts of earlier lives."""
    key = Window.partitionBy(*[column(k) for k in keys])
    upsert = F.when(F.col("_operation") == UPSERT, F.col("_stamp"))
    deleted = F.when(F.col("_operation") == DELETE, F.col("_stamp"))
    dated = changes.withColumn("_newest_upsert", F.max(upsert).over(key))
    before = F.when(deleted < F.col("_newest_upsert"), deleted)
    born = dated.withColumn("_born", F.coalesce(F.max(before).over(key), F.lit("")))
    kept = born.where((F.col("_operation") == DELETE) | (F.col("_stamp") > F.col("_born")))
    return kept.drop("_newest_upsert", "_born")
