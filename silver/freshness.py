"""When a table is applied of which changes may wait in the change log.

A continuous run shows pending changes from the change log (`silver.merge.pending_view`), so it
applies a table when that pays: not before ten minutes have passed, and so that all its tables'
applies take a fifth of one thread's time at most. Every other run applies what comes, but for
tables with `max_staleness`.

Every run takes what is new into the change log. It applies what waits there when the last run that
applied any began half the promised interval ago or more: so the table is applied at most twice per
interval, a change waits for half of it, and the other half is for the apply itself and for the
pause until the next run. Where runs are rarer than that each one applies; `max_staleness: 0` makes
every run apply. What waits for longer than promised, because runs are late, fail or were killed, is
merged by gold's views when they are asked (see `gold.views.merged`).

A log in which very much waits is applied at once, as every reader would merge all of it, and so is
what cannot be shown beside the table (see `silver.merge.pending`).
"""

from datetime import datetime

from lakehouse.config.table import Table
from lakehouse.durations import seconds
from lakehouse.run.memory import LULL_SECONDS
from silver.state.batch import TableState

MOST_PENDING = 500_000
"""With so many changes a merging read costs several times a plain one."""


TOGETHER = 1.5
"""So many times later tables are merged that are worked on together, as the others would wait."""


SHARE = 5
"""A run that goes on merges for a fifth of the time of one thread at most, over all its tables."""


def is_due(
    table: Table, seen: TableState, now: datetime, among: int | None = None, alone: bool = True
) -> bool:
    """Whether what waits is to be applied now; at once for a table that promises nothing.

    `among` is how many tables a run works on that goes on, and shows what waits from the log. Such
    a run merges a table that it works on with others later than one that it works on `alone`.
    """
    if seen.applied_at is None:
        return True
    half = seconds(table.max_staleness) / 2 if table.max_staleness is not None else 0
    if not half and among is not None:
        half = max(LULL_SECONDS, SHARE * among * (seen.took or 0)) * (1 if alone else TOGETHER)
    return half == 0 or now.timestamp() - seen.applied_at / 1_000_000 >= half


def may_wait(records: int) -> bool:
    """Whether so many records of the change log may wait."""
    return records <= MOST_PENDING
