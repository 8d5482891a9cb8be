"""Finds the transactions of a group that wait, from its members' change logs and the ENDs.

The pending parts of the logs suffice for nearly all. The whole log is read only for what they leave
open: a transaction of which a part was delivered again, a snapshot, a record that cannot be read.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from silver.contract import NONE
from silver.groups import transactions
from silver.groups.transactions import GroupProgress, Unit, explain_wait, filter_units
from silver.state.epochs import SNAPSHOT_ID
from silver.state.table_state import WaitingTransaction

Logs = Mapping[str, DataFrame]


class Ends(NamedTuple):
    """The ENDs of a group's transactions.

    Attributes:
        rows: rows of `silver._transactions` of the group.
        are_marked: whether a transaction topic is read for the group.
        unseen: ENDs of which no record may have come.
    """

    rows: DataFrame
    are_marked: bool
    unseen: DataFrame | None = None


def find_waiting(
    pending: Logs, logs: Logs, of_group: Ends, members: Sequence[str]
) -> tuple[WaitingTransaction, ...]:
    """The transactions that wait, those that are not complete first.

    Args:
        pending: of each member the log rows that no run has applied.
        logs: of each member the whole log.
        of_group: the ENDs of the group's transactions.
        members: the group's tables, those without any record included.
    """
    ends, marked, unseen = of_group
    units = transactions.select_units(pending, ends, unseen)
    open_ = transactions.collect_units(units.where("NOT complete"))
    if not open_:
        return ()
    open_ = _without_lost(_counted_again(open_, logs), logs)
    progress = _read_progress(open_, logs, ends, marked)
    still = transactions.find_incomplete(open_, members, progress, marked)
    waits = tuple(explain_wait(unit, progress, marked) for unit in still)
    limit = transactions.find_barrier(still, progress, marked)
    return waits if limit is None else waits + _find_behind(units, still, limit)


def _find_behind(
    units: DataFrame, still: Sequence[Unit], limit: str
) -> tuple[WaitingTransaction, ...]:
    """Transactions that are complete and stand behind one that is not, which is at `limit`."""
    named = {unit.transaction for unit in still}
    later = transactions.collect_units(units.where(F.col("place") > limit))
    return tuple(
        WaitingTransaction(
            unit.transaction, unit.since, unit.records, "an earlier transaction", False
        )
        for unit in later
        if unit.transaction not in named
    )


def _counted_again(open_: list[Unit], logs: Logs) -> list[Unit]:
    """The transactions with all their records counted, not only the pending ones."""
    short = [unit.transaction for unit in open_ if unit.ended]
    if not short:
        return open_
    counts: dict[str, dict[str, int]] = {}
    parts = [transactions.of_member(filter_units(log, short), table) for table, log in logs.items()]
    for row in reduce(DataFrame.unionByName, parts).collect():
        counts.setdefault(row["transaction"], {})[row["table"]] = row["n"]
    counted = [u._replace(records=u.records | counts.get(u.transaction, {})) for u in open_]
    return [unit for unit in counted if not unit.ended or unit.missing]


def _without_lost(open_: list[Unit], logs: Logs) -> list[Unit]:
    """The transactions without those that lack only records which could not be read.

    A record that cannot be read has lost its transaction. It is taken for a missing one once its
    table shows a later transaction.
    """
    ended = [unit for unit in open_ if unit.ended]
    lost = {t: _count_lost(logs[t]) for t in {t for unit in ended for t in unit.missing} & {*logs}}
    return [unit for unit in open_ if not (unit.ended and _is_lost(unit, lost))]


def _count_lost(log: DataFrame) -> tuple[int, str]:
    """How many records of a log have no transaction any more, and how far the log has come."""
    unreadable = F.col("_reason").isNotNull() & transactions.to_unit().isNull()
    streamed = F.when(F.col("_snapshot").isNull(), F.col("_sequence"))
    row = log.agg(F.count_if(unreadable).alias("n"), F.max(streamed).alias("place")).first()
    return (row["n"], row["place"] or "") if row else (0, "")


def _is_lost(unit: Unit, lost: Mapping[str, tuple[int, str]]) -> bool:
    """Whether what is missing can be records that could not be read."""
    place = unit.place or ""
    counts = {t: lost.get(t, (0, "")) for t in unit.missing}
    return all(counts[t][0] >= n and counts[t][1] > place for t, n in unit.missing.items())


def _read_progress(
    open_: Sequence[Unit], logs: Logs, ends: DataFrame, marked: bool
) -> GroupProgress:
    last = ends.agg(F.max(F.unix_micros("ended_at")).alias("at")).first()
    ended = last["at"] if last else None
    reached = _read_reached(logs) if any(_is_loose(unit, marked) for unit in open_) else {}
    times = [*(unit.newest for unit in open_), ended, *reached.values()]
    latest = max((time for time in times if time is not None), default=None)
    late = [unit for unit in open_ if transactions.may_be_overdue(unit, latest)]
    snapshots = _read_snapshots(logs) if late or any(u.is_snapshot for u in open_) else {}
    shown = {t: _newest_time(logs[t]) for t in {t for unit in late for t in unit.missing} & {*logs}}
    return GroupProgress(snapshots, min(reached.values(), default=None), latest, ended, shown)


def _is_loose(unit: Unit, marked: bool) -> bool:
    """Whether nothing but later changes shows that a transaction has ended."""
    return not (unit.is_snapshot or unit.ended or (marked and unit.metadata))


def _newest_time(log: DataFrame) -> int:
    """The newest commit time that a log has shown of a streamed change, in µs; 0 for none."""
    row = _select_streamed(log).agg(F.max(F.unix_micros("_source_time")).alias("at")).first()
    return (row["at"] or 0) if row else 0


def _select_streamed(log: DataFrame) -> DataFrame:
    """A log's changes but for the rows of full snapshots."""
    return log.where((F.col("_operation") != NONE) & F.col("_snapshot").isNull())


def _read_reached(logs: Logs) -> dict[str, int]:
    """The newest commit time that each feed has shown of a streamed change, in µs."""
    times: dict[str, int] = {}
    for log in logs.values():
        by_feed = _select_streamed(log).groupBy("_feed")
        newest = by_feed.agg(F.max(F.unix_micros("_source_time")).alias("at"))
        for row in newest.where("at IS NOT NULL").collect():
            times[row["_feed"]] = max(times.get(row["_feed"], 0), row["at"])
    return times


def _read_snapshots(logs: Logs) -> dict[str, tuple[str, dict[str, bool]]]:
    snapshots: dict[str, tuple[str, dict[str, bool]]] = {}
    for table, log in logs.items():
        snapshot = F.expr(SNAPSHOT_ID).alias("_snapshot")
        shown = log.where("_snapshot IS NOT NULL").groupBy(snapshot)
        lasts = F.coalesce(F.bool_or("_snapshot_last"), F.lit(False))
        for row in shown.agg(F.max("_sequence").alias("at"), lasts.alias("last")).collect():
            place, previous = snapshots.get(row["_snapshot"], (row["at"] or "", {}))
            snapshots[row["_snapshot"]] = (place, previous | {table: row["last"]})
    return snapshots
