"""When what waits in the change log is merged: a MERGE costs many times what an append costs.

Every run takes what is new into the change log. Of a table whose newest changes are its rows,
readers see them there at once (`silver.merge.pending_view`), or once they have waited for as long
as `max_staleness` allows. The MERGE waits until it pays:

- as many changes wait as make every read slow, or as many as a good part of the table;
- a run that ends works on few tables, so that their MERGEs take no longer than its start, or the
  oldest change has waited for an hour;
- in a run that goes on, all its merges together take a fifth of the time of one thread at most, and
  ten minutes have passed since the last one;
- with `max_staleness`, half the promised interval has passed: the table is merged at most twice per
  interval, and the other half is for the merge itself and the pause until the next run;
- `lakehouse run --merge`, `maintain`, and what needs the whole table (erase, replay, a rebuild).

A table whose pending changes the view cannot show (a history, changes that lack columns, a member
of a consistency group) is merged by the run that takes them in. A run that goes on lets such a
table lag for half of its `max_staleness`.
"""

from datetime import datetime

from lakehouse.config.table import Table
from lakehouse.durations import seconds
from lakehouse.run.memory import LULL_SECONDS, Memory
from silver.contract import waits_in_log
from silver.run import SilverTable
from silver.state.table_state import TableState

MOST_PENDING = 500_000
"""With so many changes a merging read costs several times a plain one."""
LEAST_PENDING = 20_000
"""So few changes do not pay a MERGE, however small the table is."""
PART_OF_TABLE = 2
"""What waits is merged once it is more than this part of the table."""
FEW_TABLES = 4
"""A run that ends merges so many tables at once: their MERGEs are done side by side."""
LONGEST_SECONDS = 3600.0
"""So long a run that ends lets changes wait."""
TOGETHER = 1.5
"""So many times later tables are merged that are worked on together, as the others would wait."""
SHARE = 5
"""A run that goes on merges for a fifth of the time of one thread at most, over all its tables."""


def is_due(table: SilverTable, state: TableState, now: datetime, memory: Memory) -> bool:
    """Whether what waits is to be merged now.

    Args:
        table: the table.
        state: what is known of the table, with what waits.
        now: the time.
        memory: what the run knows.
    """
    if state.applied_at is None or memory.merge_all:
        return True
    promised, goes_on = seconds(table.config.max_staleness or 0), memory.among is not None
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
    """From when on a run that ends merges what waits (s since 1970); None where that is unknown."""
    promised = seconds(table.max_staleness or 0)
    since = state.applied_at if promised else state.waiting_since
    if since is None:
        return None
    return since / 1_000_000 + (promised / 2 if promised else LONGEST_SECONDS)


def is_much(state: TableState) -> bool:
    """Whether so many changes wait that a MERGE pays at once."""
    pays = max(LEAST_PENDING, (state.size or 0) // PART_OF_TABLE)
    return state.waiting > min(pays, MOST_PENDING)
