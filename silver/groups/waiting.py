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
from silver.groups.transactions import GroupProgress, GroupSnapshot, Unit
from silver.state.epochs import SNAPSHOT_ID
from silver.state.table_state import WaitingTransaction

Logs = Mapping[str, DataFrame]


class Ends(NamedTuple):
    """The ENDs of a group's transactions.

    Attributes:
        rows: rows of `silver._transactions` of the group.
        has_topic: whether a transaction topic is read for the group.
        unseen: ENDs of which no record may have come.
    """

    rows: DataFrame
    has_topic: bool
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
    units = transactions.select_units(pending, of_group.rows, of_group.unseen)
    open_ = transactions.collect_units(units.where("NOT complete"))
    if not open_:
        return ()
    open_ = _remove_lost(_recount_records(open_, logs), logs)
    progress = _read_progress(open_, logs, of_group, members)
    incomplete = transactions.find_incomplete(open_, progress)
    waits = tuple(transactions.explain_wait(unit, progress) for unit in incomplete)
    barrier = transactions.find_barrier(incomplete, progress)
    return waits if barrier is None else waits + _find_behind(units, incomplete, barrier)


def _find_behind(
    units: DataFrame, incomplete: Sequence[Unit], barrier: str
) -> tuple[WaitingTransaction, ...]:
    """Transactions that are complete and stand behind one that is not, which is at `barrier`."""
    listed = {unit.transaction for unit in incomplete}
    later = transactions.collect_units(units.where(F.col("place") > barrier))
    return tuple(
        WaitingTransaction(u.transaction, u.since, u.records, "an earlier transaction", False)
        for u in later
        if u.transaction not in listed
    )


def _recount_records(open_: list[Unit], logs: Logs) -> list[Unit]:
    """The transactions with all their records counted, not only the pending ones."""
    ended = [unit.transaction for unit in open_ if unit.ended]
    if not ended:
        return open_
    counts: dict[str, dict[str, int]] = {}
    parts = [
        transactions.select_member_units(transactions.filter_units(log, ended), table)
        for table, log in logs.items()
    ]
    for row in reduce(DataFrame.unionByName, parts).collect():
        counts.setdefault(row["transaction"], {})[row["table"]] = row["n"]
    counted = [u._replace(records=u.records | counts.get(u.transaction, {})) for u in open_]
    return [unit for unit in counted if not unit.ended or unit.missing]


def _remove_lost(open_: list[Unit], logs: Logs) -> list[Unit]:
    """The transactions without those that lack only records which could not be read.

    A record that cannot be read has lost its transaction. It is taken for a missing one once its
    table shows a later transaction.
    """
    lost = {table: _count_lost(logs[table]) for table in _list_lacking(open_, logs)}
    return [unit for unit in open_ if not (unit.ended and _is_lost(unit, lost))]


def _list_lacking(units: Sequence[Unit], logs: Logs) -> set[str]:
    """The members with a log that lack records of some transaction."""
    return {table for unit in units for table in unit.missing} & logs.keys()


class _LostRecords(NamedTuple):
    """How many records of a log have no transaction any more, and how far the log has come."""

    records: int
    place: str


def _count_lost(log: DataFrame) -> _LostRecords:
    unreadable = F.col("_reason").isNotNull() & transactions.to_unit().isNull()
    streamed = F.when(F.col("_snapshot").isNull(), F.col("_sequence"))
    counts = F.count_if(unreadable), F.coalesce(F.max(streamed), F.lit(""))
    return _LostRecords(*log.agg(*counts).collect()[0])


def _is_lost(unit: Unit, lost: Mapping[str, _LostRecords]) -> bool:
    """Whether what is missing can be records that could not be read."""
    return all(
        table in lost and lost[table].records >= n and lost[table].place > (unit.place or "")
        for table, n in unit.missing.items()
    )


def _read_progress(
    open_: Sequence[Unit], logs: Logs, of_group: Ends, members: Sequence[str]
) -> GroupProgress:
    ended = of_group.rows.agg(F.max(F.unix_micros("ended_at"))).collect()[0][0]
    has_topic = of_group.has_topic
    reached = _read_newest_times(logs) if _need_later_change(open_, has_topic) else {}
    times = [*(unit.newest for unit in open_), ended, *reached.values()]
    latest = max((time for time in times if time is not None), default=None)
    late = [u for u in open_ if u.is_snapshot or transactions.may_be_overdue(u, latest)]
    snapshots = _read_snapshots(logs) if late else {}
    shown = {table: _read_newest_time(logs[table]) for table in _list_lacking(late, logs)}
    horizon = min(reached.values(), default=None)
    return GroupProgress(members, has_topic, snapshots, horizon, latest, ended, shown)


def _need_later_change(units: Sequence[Unit], has_topic: bool) -> bool:
    """Whether nothing but later changes shows that some transaction has ended."""
    return any(not (u.is_snapshot or u.ended or (has_topic and u.metadata)) for u in units)


def _read_newest_time(log: DataFrame) -> int:
    """The newest commit time that a log has shown of a streamed change, in µs; 0 for none."""
    newest = _select_streamed(log).agg(F.max(F.unix_micros("_source_time")))
    return newest.collect()[0][0] or 0


def _select_streamed(log: DataFrame) -> DataFrame:
    """A log's changes but for the rows of full snapshots."""
    return log.where((F.col("_operation") != NONE) & F.col("_snapshot").isNull())


def _read_newest_times(logs: Logs) -> dict[str, int]:
    """The newest commit time that each feed has shown of a streamed change, in µs."""
    times: dict[str, int] = {}
    for log in logs.values():
        by_feed = _select_streamed(log).groupBy("_feed")
        newest = by_feed.agg(F.max(F.unix_micros("_source_time")).alias("at"))
        for row in newest.where("at IS NOT NULL").collect():
            times[row["_feed"]] = max(times.get(row["_feed"], 0), row["at"])
    return times


def _read_snapshots(logs: Logs) -> dict[str, GroupSnapshot]:
    snapshots: dict[str, GroupSnapshot] = {}
    for table, log in logs.items():
        snapshot = F.expr(SNAPSHOT_ID).alias("_snapshot")
        shown = log.where("_snapshot IS NOT NULL").groupBy(snapshot)
        lasts = F.coalesce(F.bool_or("_snapshot_last"), F.lit(False))
        for id, place, last in shown.agg(F.max("_sequence"), lasts).collect():
            previous = snapshots.get(id, GroupSnapshot(place or "", {}))
            snapshots[id] = previous._replace(lasts={**previous.lasts, table: last})
    return snapshots
