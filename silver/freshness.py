"""When pending changes are merged: a MERGE costs many times what an append to the log costs.

Every run appends new records to the change log. Where a table's rows are its newest changes, a view
shows pending changes to readers at once (`silver.merge.pending_view`), or once they are as old as
`max_staleness` allows. They are merged when one of these holds:

- so many changes are pending that reads get slow, or as many as a good part of the table;
- a run that ends works on few tables, so that their MERGEs take no longer than its start, or the
  oldest change has waited for an hour;
- in a run that goes on, all its merges together take a fifth of the time of one thread at most, and
  ten minutes have passed since the last one;
- with `max_staleness`, half the promised interval has passed: the table is merged at most twice per
  interval, and the other half is for the merge itself and the pause until the next run;
- the command is `run --merge`, `maintain`, or needs the whole table (erase, replay, rebuild).

A table whose pending changes the view cannot show (a history, changes that lack columns, a member
of a consistency group) is merged by the run that decodes them. A run that goes on lets such a table
lag for half of its `max_staleness`.
"""

from datetime import datetime

from lakehouse.config.table import Table
from lakehouse.durations import to_seconds
from lakehouse.run.memory import LULL_SECONDS, Memory
from silver.contract import waits_in_log
from silver.run import SilverTable
from silver.state.table_state import TableState

MOST_PENDING = 500_000
"""With so many pending changes a read by the view costs several times a plain one."""
LEAST_PENDING = 20_000
"""So few pending changes are not worth a MERGE, however small the table is."""
PART_OF_TABLE = 2
"""Pending changes are merged once they are more than the table's rows divided by this."""
FEW_TABLES = 4
"""A run that ends merges up to so many tables at once, side by side."""
LONGEST_SECONDS = 3600.0
"""A run that ends leaves changes pending for up to so long."""
TOGETHER = 1.5
"""The pause between merges is so many times longer for tables that share a round: others wait."""
SHARE = 5
"""A run that goes on merges for a fifth of the time of one thread at most, over all its tables."""


def is_due(table: SilverTable, state: TableState, now: datetime, memory: Memory) -> bool:
    """Whether pending changes are to be merged now.

    Args:
        table: the table.
        state: the table's state, with its pending changes.
        now: the time.
        memory: the run's memory.
    """
    if state.applied_at is None or memory.merge_all:
        return True
    promised, goes_on = to_seconds(table.config.max_staleness or 0), memory.among is not None
    if not waits_in_log(table.target, table.config) and not (promised and goes_on):
        return True
    if is_much(state):
        return True
    if goes_on and not promised:
        return _has_paused(table, state, now, memory)
    if not promised and memory.worked_on <= FEW_TABLES:
        return True
    due = due_at(table.config, state)
    return due is not None and now.timestamp() >= due


def _has_paused(table: SilverTable, state: TableState, now: datetime, memory: Memory) -> bool:
    """Whether a run that goes on has left the table alone for long enough after its last merge."""
    lull = max(LULL_SECONDS, SHARE * (memory.among or 0) * (state.took or 0))
    lull *= 1 if table.name in memory.alone else TOGETHER
    return now.timestamp() - (state.applied_at or 0) / 1_000_000 >= lull


def due_at(table: Table, state: TableState) -> float | None:
    """When a run that ends merges pending changes (s since 1970); None where that is unknown."""
    promised = to_seconds(table.max_staleness or 0)
    since = state.applied_at if promised else state.waiting_since
    if since is None:
        return None
    return since / 1_000_000 + (promised / 2 if promised else LONGEST_SECONDS)


def is_much(state: TableState) -> bool:
    """Whether so many changes are pending that they are merged at once."""
    pays = max(LEAST_PENDING, (state.size or 0) // PART_OF_TABLE)
    return state.waiting > min(pays, MOST_PENDING)
