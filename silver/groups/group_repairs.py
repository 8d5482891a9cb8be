"""Repairs of one member of a consistency group: it goes on showing what the other members show.

The members' rows belong together by their transactions. So a rebuild reads the records in bronze
whose result gold shows, holds back what waited then, and makes a new state of the group. Records
that came since are left to the group's next run. A replay leaves alone what waits for its
transaction. A rebuild, a replay and an erasure are shown at once.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.errors import TableFailed
from silver.changelog import log
from silver.groups.transactions import read_versions, select_waiting
from silver.run import SilverTable
from silver.state.table_state import GroupState, TableState, WaitingTransaction, newest_group

NOT_APPLIED = (
    "its change log holds records that are not applied yet (a run was killed, or transactions wait "
    "for other tables): lakehouse run, then replay again"
)


class ShownProgress(NamedTuple):
    """How far gold shows a member: the newest batch of each of its feeds, and what waits.

    `newest` is the highest number that a run of the group has given one of its batches.
    """

    positions: Mapping[str, int]
    waiting: Sequence[WaitingTransaction]
    newest: int


def find_shown_progress(table: SilverTable, states: Mapping[str, TableState]) -> ShownProgress:
    """How far gold shows the group of a table; `states` are those of all tables.

    A run in which a member failed is not shown: gold has the versions of the one before.

    Raises:
        TableFailed: nothing of the group is shown yet.
    """
    state, group = states.get(table.name, TableState()), group_of(table.config, states)
    if not group.number and not state.batch:
        message = "nothing of its consistency group is applied yet: lakehouse run"
        raise TableFailed(table.name, message)
    if not group.number:
        return ShownProgress(state.positions, (), state.batch)
    shown = group.applied if group.shown is None else group.shown
    waits = group.waiting if group.shown is None else group.held
    batch, positions = shown.get(table.name, 0), state.positions
    if batch != state.batch:
        positions = log.find_feed_batches(log.read_log(table).where(F.col("_batch") <= batch))
    newest = max(group.applied.get(table.name, 0), state.batch)
    return ShownProgress(positions, waits, newest)


def group_of(table: Table, states: Mapping[str, TableState]) -> GroupState:
    """The newest state of a table's consistency group; an empty one for a table in no group."""
    name = table.consistency_group
    return newest_group(
        [s for s in states.values() if s.group is not None and s.group.name == name]
    )


def pin_rebuilt(
    table: SilverTable, states: Mapping[str, TableState], built: TableState
) -> TableState:
    """The state of a member whose rebuild is in place; `built` is that of the rebuild.

    Of the other members the group has the versions and batches of its newest run, and what waits of
    them.
    """
    group = group_of(table.config, states)
    if built.group is None or not group.number:
        return built
    transactions = {each.transaction for each in group.waiting}
    waits = [*group.waiting, *(w for w in built.group.waiting if w.transaction not in transactions)]
    pinned = _pin_member(group, table, built.group.applied.get(table.name, 0))
    return built.replace(group=pinned.replace(waiting=waits))


def pin_current(
    table: SilverTable, states: Mapping[str, TableState], state: TableState
) -> TableState:
    """The state of a member that gold is to show as it is now, after an erasure or a replay.

    What waited goes on waiting. For a table in no group the state is unchanged.
    """
    group = group_of(table.config, states)
    if table.config.consistency_group is None or not group.number:
        return state
    return state.replace(group=_pin_member(group, table, state.batch))


def _pin_member(group: GroupState, table: SilverTable, batch: int) -> GroupState:
    """The group's next state: of one member the version of now, at this batch of its log."""
    versions, applied = group.versions | read_versions([table]), group.applied | {table.name: batch}
    return group.replace(number=group.number + 1, versions=versions, applied=applied)


def find_waiting_transactions(
    table: Table, states: Mapping[str, TableState]
) -> Sequence[WaitingTransaction]:
    """The transactions that wait in the group of a table; none for a table in no group.

    Raises:
        TableFailed: a run of the group failed for the table, and is to be done again first.
    """
    if table.consistency_group is None:
        return ()
    group, state = group_of(table, states), states.get(table.table, TableState())
    if group.applied.get(table.table, 0) > state.batch:
        raise TableFailed(table.table, NOT_APPLIED)
    return group.waiting


def refuse_waiting_records(table: SilverTable, state: TableState, arrivals: DataFrame) -> None:
    """Refuses to erase records whose transaction waits: without them it would never be complete.

    `arrivals` identifies them. Overdue transactions are no reason to refuse.

    Raises:
        TableFailed: some of them wait.
    """
    waits = [] if state.group is None else state.group.waiting
    not_overdue = [transaction for transaction in waits if not transaction.overdue]
    if not not_overdue:
        return
    waiting = select_waiting(not_overdue, log.read_log(table))
    if not waiting.join(arrivals, ["_feed", "_arrival"], "left_semi").isEmpty():
        message = "records of the key wait for their transaction: lakehouse run, then erase again"
        raise TableFailed(table.name, message)
