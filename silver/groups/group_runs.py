"""Consistency groups: their members are decoded together, then move by the same transactions.

A run decodes what is new of every member into its change log, finds the transactions that are not
complete over all members, applies the rest to each member, and keeps the Delta versions that belong
together for gold to show. What waits is applied by the run that finds it complete. A run that is
killed is done again: to apply a change twice changes nothing, and gold goes on showing the versions
of the run before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.run.memory import Arrived
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake, LakeTable
from silver.changelog import log
from silver.changelog.batch import Batch
from silver.changelog.extend import WaitsForForm, extend_log
from silver.contract import TRANSACTIONS
from silver.groups import transaction_ends
from silver.groups.transactions import read_versions, remove_waiting, select_waiting
from silver.groups.waiting import Ends, find_waiting
from silver.run import Run, SilverTable
from silver.state import fingerprint
from silver.state.table_state import GroupState, TableState, WaitingTransaction, newest_group
from silver.storage.row_columns import column
from silver.table_run import TableResult, run_table


class Upstream(NamedTuple):
    """What the tables read from.

    Attributes:
        logged: the newest batch of each change log; None of one that cannot be read.
        feeds: what the feeds hold in bronze.
    """

    logged: Mapping[str, int | None]
    feeds: Mapping[str, Arrived]


@dataclass(frozen=True)
class Member:
    """A member of a group in a run: what is known of it without and with the new log rows."""

    table: SilverTable
    before: TableState
    after: TableState

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.name

    @cached_property
    def log(self) -> DataFrame:
        """The whole change log."""
        return log.read_log(self.table).where(F.col("_batch") <= self.after.logged)


class MemberBatch(NamedTuple):
    """What a run applies of a member's log.

    Attributes:
        batch: what may be applied of the log; what is to be applied now has its number.
        new: how many records came.
        applying: how many records are applied.
    """

    batch: Batch
    new: int
    applying: int

    @property
    def counts(self) -> dict[str, int]:
        """What came, and how many more wait than before: fewer is a negative number."""
        return {"records": self.new, "waiting": self.new - self.applying}


def groups_of(tables: Sequence[Table]) -> dict[str, list[Table]]:
    """The members of each consistency group."""
    groups: dict[str, list[Table]] = {}
    for table in tables:
        if table.consistency_group is not None:
            groups.setdefault(table.consistency_group, []).append(table)
    return groups


@dataclass
class GroupRun:
    """One run of one group.

    Attributes:
        run: the run of silver.
        lake: where the tables lie.
        name: the group's name.
        tables: its members.
        before: what is known of each member.
        held: what waits, where that is known already; else it is found in the ENDs and logs.
        formless: counts of the members whose records wait for the first event of their feed: such a
            member keeps its state, and appears only in the run's output until they are applied.
    """

    run: Run
    lake: Lake
    name: str
    tables: Sequence[Table]
    before: Mapping[str, TableState]
    held: Sequence[WaitingTransaction] | None = None

    def __post_init__(self) -> None:
        """Begins with nothing done."""
        self.messages: dict[str, str] = {}
        self.formless: dict[str, dict[str, int]] = {}
        self.results: dict[str, TableResult] = {}
        states = [self.before[table.table] for table in self.tables]
        self.group: GroupState = newest_group(states)

    def advance(self, upstream: Upstream) -> None:
        """Decodes what is new of the members, and applies what does not wait."""
        members = self._extend_logs(upstream)
        if self.messages:
            return
        self.results = {
            m.name: TableResult(m.after, self.formless.get(m.name, {})) for m in members
        }
        if not any(member.after.logged for member in members):
            return
        ends: dict[str, int] = {}
        if self.held is None:
            ends = transaction_ends.add_new_ends(self.lake, self.name, self.tables)
            if self.group.number and self._is_idle(members, ends):
                return
        batches, waits = plan_batches(self, members)
        applied = {member.name: member.before.batch for member in members}
        for planned in batches:
            applied[planned.batch.table.name] = planned.batch.number
            self._apply(planned)
        self._keep_state(applied, ends, waits)

    def _extend_logs(self, upstream: Upstream) -> list[Member]:
        """The members with what their logs hold now; those that failed are missing."""
        members = []
        for config in self.tables:
            table, before = SilverTable(self.lake, config), self.before[config.table]
            try:
                fingerprint.check_configuration(config, before.built)
                logged = upstream.logged[config.table]
                logged = log.find_newest_batch(table) if logged is None else logged
                after = extend_log(self.run, table, before, logged, upstream.feeds)
            except WaitsForForm as waits:
                after, self.formless[config.table] = before, {"waiting": waits.records}
            except TABLE_FAILURES as failure:
                self.messages[config.table] = describe_failure(failure)
                continue
            members.append(Member(table, before, after))
        return members

    def _is_idle(self, members: Sequence[Member], ends: Mapping[str, int]) -> bool:
        """Whether nothing came that a run could do: no record, and no END that something waits for.

        False as well where a member that failed is to be done again.
        """
        came = any(m.after.logged > m.before.batch for m in members)
        ended = bool(self.group.waiting) and self.group.ends != dict(ends)
        undone = any(self.group.applied.get(m.name, 0) > m.before.batch for m in members)
        return not (came or ended or undone)

    def _apply(self, planned: MemberBatch) -> None:
        batch, name = planned.batch, planned.batch.table.name
        if not planned.applying:
            state = batch.after.replace(batch=batch.number)
            self.results[name] = TableResult(state, planned.counts)
            return
        try:
            done = run_table(self.run, batch)
        except TABLE_FAILURES as failure:
            self.messages[name] = describe_failure(failure)
            return
        self.results[name] = TableResult(done.state, done.counts | planned.counts)

    def _keep_state(
        self, applied: dict[str, int], ends: dict[str, int], waits: Sequence[WaitingTransaction]
    ) -> None:
        """Gives each member that did not fail the state of the group after the run."""
        group = GroupState(self.name, self.group.number + 1, applied, ends, {}, list(waits))
        if self.messages:
            shown = self.group.applied if self.group.shown is None else self.group.shown
            held = self.group.waiting if self.group.shown is None else self.group.held
            group = group.replace(versions=self.group.versions, shown=shown, held=held)
        else:
            tables = [SilverTable(self.lake, table) for table in self.tables]
            group = group.replace(versions=read_versions(tables))
        for name, done in self.results.items():
            if name not in self.messages and name not in self.formless:
                self.results[name] = done._replace(state=done.state.replace(group=group))


def advance_groups(
    run: Run,
    lake: Lake,
    tables: Sequence[Table],
    before: Mapping[str, TableState],
    upstream: Upstream,
    held: Sequence[WaitingTransaction] | None = None,
) -> dict[str, tuple[datetime, TableResult, str | None]]:
    """One run of each group that the tables are in.

    Returns:
        Of each member when its group's run began, what came of it, and why it failed.
    """
    results = {}
    for name, members in groups_of(tables).items():
        run.progress(f"silver {', '.join(table.table for table in members)}")
        began = datetime.now(timezone.utc)
        group_run = GroupRun(run, lake, name, members, before, held)
        group_run.advance(upstream)
        for table in (config.table for config in members):
            unchanged = TableResult(run.noted.get(table, before[table]), {})
            message = group_run.messages.get(table)
            result = unchanged if message else group_run.results.get(table, unchanged)
            results[table] = began, result, message
    return results


def plan_batches(
    group_run: GroupRun, members: Sequence[Member]
) -> tuple[list[MemberBatch], Sequence[WaitingTransaction]]:
    """What each member has to apply, and what waits. A member without any record has no batch."""
    begun = [m for m in members if m.after.logged]
    pending = {m.name: _find_pending(m, group_run.group) for m in begun}
    waits = group_run.held
    if waits is None:
        logs = {m.name: m.log for m in begun}
        ends = _read_ends(group_run, begun)
        waits = find_waiting(pending, logs, ends, [m.name for m in members])
    batches = [_build_batch(m, pending[m.name], waits) for m in begun]
    return [batch for batch in batches if batch.new + batch.applying], waits


def _read_ends(group_run: GroupRun, members: Sequence[Member]) -> Ends:
    """The ENDs of the group; unseen are those that are new to the oldest of the members' states.

    None is unseen when members had applied changes before the group's first run, without a group.
    """
    rows = LakeTable(group_run.lake, "silver", TRANSACTIONS).read()
    ends = rows.where(F.col("group") == group_run.name)
    has_topic = bool(transaction_ends.list_feeds(group_run.tables))
    if not group_run.group.number and any(m.before.batch for m in members):
        return Ends(ends, has_topic)
    states = [m.before.group or GroupState() for m in members]
    feeds = group_run.group.ends
    oldest = {feed: min(state.ends.get(feed, 0) for state in states) for feed in feeds}
    waited = {each.transaction for state in states for each in state.waiting}
    return Ends(ends, has_topic, transaction_ends.select_unseen(ends, oldest, sorted(waited)))


def _find_pending(member: Member, group: GroupState) -> DataFrame:
    """Log rows of a member that no run has applied: new ones, and those that have waited.

    A new member of the group: its whole log. Before a group's first run nothing waited.
    """
    rows, before = member.log, member.before.group
    if before is None and group.number:
        return rows
    new = rows.where(F.col("_batch") > member.before.batch)
    if before is None or not before.waiting:
        return new
    old = rows.where(F.col("_batch") <= member.before.batch)
    return new.unionByName(select_waiting(before.waiting, old))


def _build_batch(
    member: Member, pending: DataFrame, waits: Sequence[WaitingTransaction]
) -> MemberBatch:
    """A run that only releases waiting rows has a batch number of its own as well."""
    before, released = member.before, remove_waiting(waits, pending)
    new = member.log.where(F.col("_batch") > before.batch).count()
    number = max(member.after.logged, before.batch + 1)
    applied = _select_applied(member, remove_waiting(waits, member.log), released)
    rows = applied.unionByName(released.withColumn("_batch", F.lit(number).cast("bigint")))
    after = member.after.replace(logged=number, waits=None)
    return MemberBatch(Batch(member.table, rows, before, after), new, released.count())


def _select_applied(member: Member, rows: DataFrame, released: DataFrame) -> DataFrame:
    """Rows applied by earlier runs, without those that this run releases."""
    is_old = F.col("_batch") <= member.before.batch
    waited = released.where(is_old).select("_feed", "_arrival")
    applied = rows.where(is_old).join(waited, ["_feed", "_arrival"], "left_anti")
    return applied.select(*[column(c) for c in rows.columns])
