"""Consistency groups: their members are decoded together, then move by the same transactions.

A pass decodes what is new of every member into its change log, finds the transactions that are not
complete over all members, applies the rest to each member, and keeps the Delta versions that belong
together for gold to show. What waits is applied by the pass that finds it complete. A pass that is
killed is done again: to apply a change twice changes nothing, and gold goes on showing the versions
of the pass before.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.spark.failures import in_short
from lakehouse.spark.spark_failures import TABLE_FAILURES
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver.changelog import log
from silver.contract import TRANSACTIONS
from silver.groups import group_state, transaction_ends
from silver.groups.group_state import State
from silver.groups.transactions import Waiting
from silver.groups.waiting import Ends, waiting
from silver.state.batch import TableState
from silver.state.snapshots import TableChanges
from silver.storage.row_columns import column
from silver.table_result import Pass

FAILURES = TABLE_FAILURES


class Member(NamedTuple):
    """A member of a group in a pass: what was applied before, and what its log holds now."""

    table: Table
    seen: TableState
    after: TableState


class Part(NamedTuple):
    """A member's share of a pass.

    `rows` is all of its log that may be applied, what is to be applied now as of the pass's own
    batch; `new` and `applying` count what came new and what is applied.
    """

    member: Member
    rows: DataFrame
    new: int
    applying: int

    @property
    def counts(self) -> dict[str, int]:
        """What came, and how many more wait than before: fewer is a negative number."""
        return {"records": self.new, "waiting": self.new - self.applying}


class Steps(NamedTuple):
    """What a table run does for a member of a group.

    Attributes:
        extend: decodes what is new of a member into its log, and tells what that holds then.
        apply: applies a member's part of the log.
    """

    extend: Callable[[Table], TableState]
    apply: Callable[[Part], Pass]


class Group(NamedTuple):
    """A consistency group: its name, its members, and its last runs, the newest first."""

    name: str
    members: Sequence[Table]
    states: list[State]


class Moved(NamedTuple):
    """What came of a group: of each member why it failed, what its log holds, and the new state."""

    messages: dict[str, str]
    after: dict[str, TableState]
    state: State | None
    passes: dict[str, Pass]


def groups_of(tables: Sequence[Table]) -> dict[str, list[Table]]:
    """The members of each consistency group."""
    found: dict[str, list[Table]] = {}
    for table in tables:
        if table.consistency_group is not None:
            found.setdefault(table.consistency_group, []).append(table)
    return found


def move(
    lake: Lake,
    group: Group,
    known: Mapping[str, TableState],
    steps: Steps,
    held: tuple[Waiting, ...] | None = None,
) -> Moved:
    """One run of a group.

    Args:
        lake: where its tables lie.
        group: the group.
        known: what each member has applied.
        steps: how a member extends its log and applies its part.
        held: what waits, where that is known already; else the ENDs and the logs tell.

    Returns:
        The state is None when nothing has come and nothing was waiting.
    """
    spark, target, states = lake.spark, lake.target, group.states
    decoded, messages = _extended(group, known, steps)
    after = {m.table.table: m.after for m in decoded}
    if messages or not any(m.after.batch for m in decoded):
        return Moved(messages, after, None, {})
    applied = {m.table.table: m.seen.batch for m in decoded}
    if held is None:
        ends = transaction_ends.read_new(spark, target, group.name, group.members)
        applied |= {f"{group_state.ENDS}{feed}": batch for feed, batch in ends.items()}
        if states and _is_idle(states[0], decoded, ends):
            return Moved(messages, after, None, {})
    parts, waits = parted(spark, target, group.name, decoded, states, held)
    passes: dict[str, Pass] = {}
    for part in parts:
        name = part.member.table.table
        applied[name] = part.member.after.batch
        try:
            passes[name] = _applied(part, steps)
        except FAILURES as failure:
            messages[name] = in_short(failure)
    before = states[0] if states else State(0, {}, {}, ())
    versions = before.versions if messages else versions_of(spark, target, group.members)
    moved = State(before.number + 1, applied, versions, waits)
    return Moved(messages, after, moved, passes)


def _extended(
    group: Group, known: Mapping[str, TableState], steps: Steps
) -> tuple[list[Member], dict[str, str]]:
    """The members with what their logs hold now, and why others failed, by table."""
    decoded, messages = list[Member](), dict[str, str]()
    for table in group.members:
        try:
            decoded.append(Member(table, known[table.table], steps.extend(table)))
        except FAILURES as failure:
            messages[table.table] = in_short(failure)
    return decoded, messages


def _applied(part: Part, steps: Steps) -> Pass:
    if not part.applying:
        return Pass(part.member.after, part.counts, TableChanges([], []), False)
    done = steps.apply(part)
    return done._replace(counts=done.counts | part.counts)


def _is_idle(before: State, members: Sequence[Member], ends: Mapping[str, int]) -> bool:
    """Whether nothing came that a pass could do: no record, and no END that something waits for.

    Nor is one to be done again: the newest failed, or was killed before the ledger had it.
    """
    came = any(m.seen.batch != m.after.batch for m in members)
    ended = bool(before.waiting) and before.ends != ends
    undone = any(before.applied.get(m.table.table, 0) > m.seen.batch for m in members)
    return not (came or ended or undone)


def parted(
    spark: SparkSession,
    target: Target,
    group: str,
    members: Sequence[Member],
    states: list[State],
    held: tuple[Waiting, ...] | None,
) -> tuple[list[Part], tuple[Waiting, ...]]:
    """What each member has to apply, and what waits. A member that never had a record has none."""
    begun = [m for m in members if m.after.batch]
    if not begun:
        return [], ()
    logs = {m.table.table: _log(spark, target, m) for m in begun}
    pending = {m.table.table: _pending(spark, logs[m.table.table], m, states) for m in begun}
    waits = held
    if waits is None:
        told = spark.table(names.name(target, "silver", TRANSACTIONS))
        ends = told.where(F.col("group") == group)
        marked = bool(transaction_ends.feeds([m.table for m in members]))
        everyone = [m.table.table for m in members]
        unseen = _unseen(ends, begun, states)
        waits = waiting(spark, pending, logs, Ends(ends, marked, unseen), everyone)
    parts = [_part(spark, m, logs[m.table.table], pending[m.table.table], waits) for m in begun]
    return [p for p in parts if p.new or p.applying], waits


def _unseen(ends: DataFrame, members: Sequence[Member], states: list[State]) -> DataFrame | None:
    """The ENDs that no pass has judged which the ledger knows of, and those that waited.

    None when the members had applied changes before the group's first pass: these had no group.
    """
    if not states:
        fresh = not any(m.seen.batch for m in members)
        return transaction_ends.unseen(ends, {}, []) if fresh else None
    known = [group_state.acknowledged(states, m.table.table, m.seen.batch) for m in members]
    of = [state or states[-1] for state in known]
    read = [state.ends for state in of]
    oldest = {feed: min(each.get(feed, 0) for each in read) for feed in read[0]}
    waited = {each.transaction for state in of for each in state.waiting}
    return transaction_ends.unseen(ends, oldest, sorted(waited))


def _part(
    spark: SparkSession,
    member: Member,
    rows: DataFrame,
    pending: DataFrame,
    waits: tuple[Waiting, ...],
) -> Part:
    """A pass that only lets waiting rows through has a number of its own as well."""
    through = group_state.let_through(spark, waits, pending)
    new = F.count_if(F.col("_batch") > member.seen.batch)
    came = rows.agg(new.alias("n")).first()
    number = max(member.after.batch, member.seen.batch + 1)
    after = member.after._replace(batch=number)
    applied = _before(member, group_state.let_through(spark, waits, rows), through)
    return Part(
        member._replace(after=after),
        applied.unionByName(through.withColumn("_batch", F.lit(number).cast("bigint"))),
        came["n"] if came else 0,
        through.count(),
    )


def _before(member: Member, rows: DataFrame, through: DataFrame) -> DataFrame:
    """The rows that earlier passes have applied: not those that waited and do so no longer."""
    waited = through.where(F.col("_batch") <= member.seen.batch).select("_feed", "_arrival")
    earlier = rows.where(F.col("_batch") <= member.seen.batch)
    kept = earlier.join(waited, ["_feed", "_arrival"], "left_anti")
    return kept.select(*[column(c) for c in rows.columns])


def _log(spark: SparkSession, target: Target, member: Member) -> DataFrame:
    rows = log.read(spark, target, member.table)
    return rows.where(F.col("_batch") <= member.after.batch)


def _pending(
    spark: SparkSession, rows: DataFrame, member: Member, states: list[State]
) -> DataFrame:
    """Log rows of a member that no pass has applied: new ones, and those that have waited.

    Where the state of its last pass is no longer kept it is the whole log. Before a group's first
    pass nothing has waited.
    """
    before = group_state.acknowledged(states, member.table.table, member.seen.batch)
    if before is None and states:
        return rows
    new = rows.where(F.col("_batch") > member.seen.batch)
    if before is None or not before.waiting:
        return new
    old = rows.where(F.col("_batch") <= member.seen.batch)
    return new.unionByName(group_state.held_back(spark, before.waiting, old))


def versions_of(spark: SparkSession, target: Target, members: Sequence[Table]) -> dict[str, int]:
    """The Delta version that each member's table has now."""
    found: dict[str, int] = {}
    for table in members:
        kept = f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table
        if names.exists(spark, target, "silver", kept):
            found[kept] = group_state.version_of(spark, target, kept)
    return found
