"""Which source transactions of a consistency group wait, and for what.

A transaction is complete when its END has come and, for every member, as many different records as
the END counts. The rows of one full snapshot are one transaction, complete when its last row has
come for every member; a member that shows no row of it is taken to be empty as soon as anything
later has come. Where the source gives no transaction metadata, a transaction is complete when every
feed of the group has shown a later one. Either is a unit below.

What is complete still waits while an earlier one is not: gold moves along the order of commits.
An incomplete transaction is overdue when the topics that should bring the rest (of each table that
lacks records, or of the ENDs) show commits `PATIENCE` later (µs, by the source's clock). Others say
nothing, as each topic is read at its own pace; but when any is `PATIENCE_SILENT` later, it is
overdue too. It goes on waiting and is reported, but holds back no other. The next full snapshot of
all members ends the wait.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.spark.local_rows import local_rows
from silver.contract import NONE
from silver.run import SilverTable
from silver.state.epochs import SNAPSHOT_ID
from silver.state.table_state import WaitingTransaction

PATIENCE, PATIENCE_SILENT = 60_000_000, 3_600_000_000
SNAPSHOT = "snapshot "


class Unit(NamedTuple):
    """One transaction, or the rows of one full snapshot, as the members' change logs show it.

    `place` is its place in source order; `since` and `newest` are its first and last commit time
    (µs since 1970); `metadata`: its records or its END show it; `ended`: its END came;
    `records`: different records seen by member; `expected`: those that its END counts.
    """

    transaction: str
    place: str | None
    since: int | None
    newest: int | None
    metadata: bool
    ended: bool
    records: dict[str, int]
    expected: dict[str, int] | None

    @property
    def is_snapshot(self) -> bool:
        """Whether these are the rows of a full snapshot."""
        return self.transaction.startswith(SNAPSHOT)

    @property
    def missing(self) -> dict[str, int]:
        """How many records of each member are still to come."""
        left = {t: n - self.records.get(t, 0) for t, n in (self.expected or {}).items()}
        return {table: n for table, n in left.items() if n > 0}


class GroupSnapshot(NamedTuple):
    """A full snapshot's place in source order, and by member whether its last row came."""

    place: str
    lasts: Mapping[str, bool]


class GroupProgress(NamedTuple):
    """The group's tables, and what their whole change logs say; times are µs since 1970.

    `has_topic`: a transaction topic is read for the group. `snapshots`: the full snapshots by id.
    `horizon`: each feed has shown a commit of this time or later. `latest`: the newest commit time
    seen; `ended`: that in an END; `shown`: that of each member that lacks records, 0 for none.
    """

    members: Sequence[str]
    has_topic: bool
    snapshots: Mapping[str, GroupSnapshot]
    horizon: int | None
    latest: int | None
    ended: int | None
    shown: Mapping[str, int]


def to_unit() -> Column:
    """The transaction that a log row belongs to; null if it belongs to none, and so never waits."""
    snapshot = F.concat(F.lit(SNAPSHOT), F.expr(SNAPSHOT_ID))
    transaction = F.when(F.col("_snapshot").isNotNull(), snapshot).otherwise(F.col("_transaction"))
    return F.when(F.coalesce(F.col("_operation"), F.lit("")) != NONE, transaction)


def read_versions(members: Sequence[SilverTable]) -> dict[str, int]:
    """The Delta version that each member's table has now."""
    versions: dict[str, int] = {}
    for kept in (member.kept for member in members if member.kept.exists):
        shown = kept.lake.spark.sql(f"DESCRIBE HISTORY {kept.name} LIMIT 1")
        versions[kept.table] = int(shown.collect()[0]["version"])
    return versions


def select_waiting(waiting: Sequence[WaitingTransaction], rows: DataFrame) -> DataFrame:
    """Log rows of the transactions that wait."""
    return filter_units(rows, [each.transaction for each in waiting])


def remove_waiting(waiting: Sequence[WaitingTransaction], rows: DataFrame) -> DataFrame:
    """Log rows of all but the transactions that wait."""
    transactions = [each.transaction for each in waiting]
    return filter_units(rows, transactions, "left_anti") if waiting else rows


def filter_units(rows: DataFrame, transactions: Iterable[str], how: str = "left_semi") -> DataFrame:
    """Log rows of some transactions, or with `left_anti` all others."""
    named = local_rows(rows.sparkSession, [{"_unit": t} for t in transactions], "_unit string")
    return rows.withColumn("_unit", to_unit()).join(F.broadcast(named), "_unit", how).drop("_unit")


def select_units(
    pending: Mapping[str, DataFrame], ends: DataFrame, unseen: DataFrame | None = None
) -> DataFrame:
    """The transactions in the pending parts of the members' logs, one row each.

    Args:
        pending: log rows of each member.
        ends: rows of `silver._transactions` of the group.
        unseen: those of `ends` whose transactions are listed without a pending row too.
    """
    of_members = [select_member_units(rows, table) for table, rows in pending.items()]
    seen = (
        reduce(DataFrame.unionByName, of_members)
        .groupBy("transaction")
        .agg(
            F.max("place").alias("reached"),
            F.min("since").alias("since"),
            F.max("newest").alias("newest"),
            F.bool_or("metadata").alias("metadata"),
            F.map_from_entries(F.collect_list(F.struct("table", "n"))).alias("records"),
        )
    )
    once = ends.groupBy("transaction").agg(
        F.max("place").alias("place"), F.max_by("expected", "feed_batch").alias("expected")
    )
    joined = seen.join(once.withColumn("ended", F.lit(True)), "transaction", "left")
    place = F.when(F.col("ended"), F.coalesce("place", "reached")).otherwise(F.col("reached"))
    units = joined.withColumns({"place": place, "complete": _is_complete()}).drop("reached")
    return units if unseen is None else units.unionByName(_without_rows(unseen, seen, units))


def _without_rows(unseen: DataFrame, seen: DataFrame, units: DataFrame) -> DataFrame:
    """The transactions of ENDs of which no member has a pending row, in the shape of `units`."""
    without = unseen.join(seen.select("transaction"), "transaction", "left_anti")
    ended_at = F.unix_micros(F.max("ended_at"))
    columns = {
        "since": ended_at,
        "newest": ended_at,
        "metadata": F.lit(True),
        "place": F.max("place"),
        "expected": F.max_by("expected", "feed_batch"),
        "ended": F.lit(True),
        "complete": F.lit(False),
    }
    rows = without.groupBy("transaction").agg(*[c.alias(name) for name, c in columns.items()])
    return rows.withColumn("records", F.create_map().cast(units.schema["records"].dataType))


def select_member_units(rows: DataFrame, table: str) -> DataFrame:
    """The transactions in log rows of one member; `n` counts its different records."""
    identity = F.struct("_sequence", "_transaction_order")
    grouped = rows.withColumn("transaction", to_unit()).where("transaction IS NOT NULL")
    return grouped.groupBy("transaction").agg(
        F.lit(table).alias("table"),
        F.max("_sequence").alias("place"),
        F.min(F.unix_micros("_source_time")).alias("since"),
        F.max(F.unix_micros("_source_time")).alias("newest"),
        F.bool_or(F.col("_transaction_order").isNotNull()).alias("metadata"),
        F.count_distinct(identity).alias("n"),
    )


def _is_complete() -> Column:
    """Whether the END is there and the members have what it counts."""
    lacks_records = F.exists(
        F.map_entries("expected"),
        lambda count: F.coalesce(F.col("records")[count["key"]], F.lit(0)) < count["value"],
    )
    return F.coalesce(F.col("ended"), F.lit(False)) & ~F.coalesce(lacks_records, F.lit(False))


def collect_units(rows: DataFrame) -> list[Unit]:
    """Collects rows of `select_units`."""
    return [
        Unit(
            row["transaction"], row["place"], row["since"], row["newest"],
            row["metadata"] or bool(row["ended"]), bool(row["ended"]), row["records"],
            row["expected"],
        )
        for row in rows.collect()
    ]  # fmt: skip


def find_incomplete(units: Sequence[Unit], progress: GroupProgress) -> list[Unit]:
    """Those of some incomplete transactions that have to wait for their missing records."""
    places = [
        snapshot.place
        for snapshot in progress.snapshots.values()
        if all(snapshot.lasts.get(table) for table in progress.members)
    ]
    newest = max(places, default="")
    return [unit for unit in units if not _is_settled(unit, progress, newest)]


def _is_settled(unit: Unit, progress: GroupProgress, snapshot: str) -> bool:
    """Whether it waits no longer; `snapshot`: place of the newest one that all members have."""
    if unit.is_snapshot:
        return (unit.place or "") < snapshot or _is_whole(unit, progress)
    overdue = is_overdue(unit, progress)
    if overdue and (unit.place or snapshot) < snapshot:
        return True
    if progress.has_topic and unit.metadata:
        return False
    return overdue or _is_behind(unit, progress.horizon, 0)


def _is_whole(snapshot: Unit, progress: GroupProgress) -> bool:
    """Whether every member has seen the snapshot's last row, or is taken to be empty."""
    shown = progress.snapshots.get(snapshot.transaction.removeprefix(SNAPSHOT))
    lasts = {} if shown is None else shown.lasts
    has_later = _is_behind(snapshot, progress.latest, 0)
    return all(lasts.get(table, has_later) for table in progress.members)


def is_overdue(unit: Unit, progress: GroupProgress) -> bool:
    """Whether the source has gone on past the patience, where the rest should have come."""
    silent = _is_behind(unit, progress.latest, PATIENCE_SILENT)
    if silent or unit.is_snapshot:
        return silent
    if unit.ended:
        slowest = min((progress.shown.get(t, 0) for t in unit.missing), default=progress.latest)
        return _is_behind(unit, slowest, PATIENCE)
    latest = progress.ended if progress.has_topic and unit.metadata else progress.latest
    return _is_behind(unit, latest, PATIENCE)


def may_be_overdue(unit: Unit, latest: int | None) -> bool:
    """Whether it can be overdue: some commit is past the patience."""
    return _is_behind(unit, latest, PATIENCE_SILENT if unit.is_snapshot else PATIENCE)


def _is_behind(unit: Unit, at: int | None, patience: int) -> bool:
    """Whether a commit time is more than so many µs after the unit's last one."""
    return (at or 0) - (unit.newest or 0) > patience


def find_barrier(waiting: Sequence[Unit], progress: GroupProgress) -> str | None:
    """The place that gold must not pass: the first transaction that waits and is not overdue."""
    places = [u.place for u in waiting if u.place and not is_overdue(u, progress)]
    return min(places, default=None)


def explain_wait(unit: Unit, progress: GroupProgress) -> WaitingTransaction:
    """What an incomplete transaction waits for, for a person."""
    if unit.is_snapshot:
        missing = "the last row of the snapshot"
    elif not unit.ended:
        missing = "its END" if unit.metadata else "a later transaction"
    else:
        missing = ", ".join(f"{n} of {table}" for table, n in sorted(unit.missing.items()))
    overdue = is_overdue(unit, progress)
    return WaitingTransaction(unit.transaction, unit.since, unit.records, missing, overdue)
