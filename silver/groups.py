"""Consistency groups: their members are decoded together, then move by the same transactions.

A pass decodes what is new of every member into its change log, finds the transactions that are not
complete over all members, applies the rest to each member, and keeps the Delta versions that belong
together for gold to show. What waits is applied by the pass that finds it complete. A pass that is
killed is done again: to apply a change twice changes nothing, and gold goes on showing the versions
of the pass before.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import group_state, log, transaction_ends
from silver.batch import Seen
from silver.contract import TRANSACTIONS
from silver.group_state import State
from silver.transactions import Waiting
from silver.waiting import waiting


class Member(NamedTuple):
    """A member of a group in a pass: what was applied before, and what its log holds now."""

    table: Table
    seen: Seen
    after: Seen


class Part(NamedTuple):
    """A member's log: all that may be applied, what of it is to be, and how many came new."""

    rows: DataFrame
    pending: DataFrame
    new: int


def groups_of(tables: Sequence[Table]) -> dict[str, list[Table]]:
    """The members of each consistency group."""
    found: dict[str, list[Table]] = {}
    for table in tables:
        if table.consistency_group is not None:
            found.setdefault(table.consistency_group, []).append(table)
    return found


def parted(
    spark: SparkSession, target: Target, group: str, members: Sequence[Member], states: list[State]
) -> tuple[dict[str, Part], tuple[Waiting, ...]]:
    """What each member is to apply, and what waits."""
    logs = {m.table.table: _log(spark, target, m) for m in members}
    pending = {
        m.table.table: _pending(spark, logs[m.table.table], m, states)
        for m in members
        if m.table.table in logs
    }
    ends = spark.table(names.name(target, "silver", TRANSACTIONS)).where(F.col("group") == group)
    marked = bool(transaction_ends.feeds([m.table for m in members]))
    waits = waiting(spark, pending, logs, ends, marked)
    return {
        m.table.table: _part(spark, logs[m.table.table], pending[m.table.table], m.seen, waits)
        for m in members
        if m.table.table in logs
    }, waits


def _part(
    spark: SparkSession,
    rows: DataFrame,
    pending: DataFrame,
    seen: Seen,
    waits: tuple[Waiting, ...],
) -> Part:
    new = rows.where(F.col("_batch") > seen.batch).count()
    through = group_state.let_through(spark, waits, pending)
    return Part(group_state.let_through(spark, waits, rows), through, new)


def _log(spark: SparkSession, target: Target, member: Member) -> DataFrame:
    rows = log.read(spark, target, member.table)
    return rows.where(F.col("_batch") <= member.after.batch)


def _pending(
    spark: SparkSession, rows: DataFrame, member: Member, states: list[State]
) -> DataFrame:
    """Log rows of a member that no pass has applied: new ones, and those that have waited.

    Without a known state it is the whole log.
    """
    before = group_state.acknowledged(states, member.table.table, member.seen.batch)
    if before is None:
        return rows
    new = rows.where(F.col("_batch") > member.seen.batch)
    if not before.waiting:
        return new
    old = rows.where(F.col("_batch") <= member.seen.batch)
    return new.unionByName(group_state.held_back(spark, before.waiting, old))
