"""A member of a consistency group that is repaired goes on showing what the other members show.

The rows of the members belong together by the transactions that they hold. So a rebuild takes from
bronze what the passes had taken that gold shows, holds back what waited then, and is a state of the
group of its own. What came since is left to the group's next pass. A replay leaves alone what waits
for its transaction. Both, and an erasure, are shown at once.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Aside, Target
from lakehouse.errors import TableFailed
from lakehouse.storage import names
from silver.changelog import log
from silver.groups import group_state
from silver.groups.group_run import versions_of
from silver.groups.transactions import Waiting
from silver.state.batch import TableState

NOT_APPLIED = (
    "its change log holds records that are not applied yet (a run was killed, or transactions wait "
    "for other tables): lakehouse run, then replay again"
)


class Reach(NamedTuple):
    """How far gold shows a member: the newest batch of each of its feeds, and what waits.

    `newest` is the highest number that a pass of the group has given one of its batches.
    """

    positions: Mapping[str, int]
    waiting: tuple[Waiting, ...]
    newest: int


def reach(spark: SparkSession, target: Target, table: Table, seen: TableState) -> Reach:
    """How far gold shows the group of a table that has applied `seen`.

    A pass in which a member failed is not shown: its state has the versions of the one before.

    Raises:
        TableFailed: nothing of the group is shown yet.
    """
    states = group_state.read(spark, target).get(str(table.consistency_group), [])
    if not states and not seen.batch:
        message = "nothing of its consistency group is applied yet: lakehouse run"
        raise TableFailed(table.table, message)
    if not states:
        return Reach(seen.positions, (), seen.batch)
    shown = [*takewhile(lambda state: state.versions == states[0].versions, states)][-1]
    batch = shown.applied.get(table.table, 0)
    positions = seen.positions
    if batch != seen.batch:
        logged = log.read(spark, target, table)
        positions = log.positions(logged.where(F.col("_batch") <= batch))
    highest = max(state.applied.get(table.table, 0) for state in states)
    return Reach(positions, shown.waiting, max(highest, seen.batch))


def note(spark: SparkSession, target: Target, beside: Aside, table: str) -> None:
    """Adds the state of the group that the rebuild of a table is, once its tables are in place.

    Of the other members it has the versions and batches of the newest one, and what waits of them.
    """
    states = group_state.read(spark, target)
    for group, (made, *_) in group_state.read(spark, beside).items():
        before = states.get(group, [])
        if not before:
            continue
        own = [name for name in (table, f"{table}_history") if name in made.versions]
        own += [name for name in before[0].versions if name in (table, f"{table}_history")]
        there = {name for name in own if names.exists(spark, target, "silver", name)}
        now = {name: group_state.version_of(spark, target, name) for name in there}
        state = before[0]._replace(
            number=before[0].number + 1,
            applied=dict(before[0].applied) | {table: made.applied[table]},
            versions=dict(before[0].versions) | now,
            waiting=_all_of(before[0].waiting, made.waiting),
        )
        states[group] = [state, *before]
        group_state.write(spark, target, states)


def _all_of(first: tuple[Waiting, ...], second: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
    known = {one.transaction for one in first}
    return (*first, *(one for one in second if one.transaction not in known))


def pin(spark: SparkSession, target: Target, table: Table, batch: int) -> None:
    """Makes gold show a member as it is now, after an erasure or a replay.

    `batch` is the newest that it has applied. What waited goes on waiting. Does nothing for a table
    in no group.
    """
    states = group_state.read(spark, target) if table.consistency_group else {}
    for state in states.get(table.consistency_group or "", [])[:1]:
        versions = dict(state.versions) | versions_of(spark, target, [table])
        applied = dict(state.applied) | {table.table: batch}
        now = state._replace(versions=versions, applied=applied)
        states[str(table.consistency_group)][0] = now
        group_state.write(spark, target, states)


def held_from_replay(
    spark: SparkSession, target: Target, table: Table, seen: TableState
) -> tuple[Waiting, ...]:
    """What waits in the group of a table that has applied `seen`; nothing in no group.

    Raises:
        TableFailed: a pass of the group was killed, or failed, and is to be done again first.
    """
    states = group_state.read(spark, target) if table.consistency_group else {}
    newest = states.get(table.consistency_group or "", [])[:1]
    if any(state.applied.get(table.table, 0) > seen.batch for state in newest):
        raise TableFailed(table.table, NOT_APPLIED)
    return newest[0].waiting if newest else ()


def refuse_what_waits(
    spark: SparkSession, target: Target, table: Table, batch: int, arrivals: DataFrame
) -> None:
    """Refuses to erase records whose transaction waits: without them it would never be complete.

    `arrivals` identifies them; `batch` is the newest that the table has applied. One that is
    overdue waits anyway.

    Raises:
        TableFailed: some of them wait.
    """
    waits = group_state.waiting(spark, target, table, batch)
    soon = tuple(one for one in waits if not one.overdue)
    if not soon:
        return
    held = group_state.held_back(spark, soon, log.read(spark, target, table))
    if not held.join(arrivals, ["_feed", "_arrival"], "left_semi").isEmpty():
        message = "records of the key wait for their transaction: lakehouse run, then erase again"
        raise TableFailed(table.table, message)
