"""A pass over a table, and what a run tells of a table's passes."""

import time
from datetime import datetime, timezone
from typing import NamedTuple

from lakehouse.ledger import Entry
from lakehouse.table import Table
from silver.batch import Seen
from silver.snapshots import TableChanges


class Pass(NamedTuple):
    """One pass over a table: its batch, what became of the records, and what it showed at large."""

    seen: Seen
    counts: dict[str, int]
    whole: TableChanges
    refolded: bool


class Outcome(NamedTuple):
    """What came of one table: its ledger entry and its passes."""

    entry: Entry
    passes: list[Pass]


class Started(NamedTuple):
    """When work began, by the calendar and by the monotonic clock in seconds."""

    at: datetime
    clock: float


def told(
    table: Table, run_id: str, seen: Seen, passes: list[Pass], message: str | None, began: Started
) -> Outcome:
    """The outcome of a table: `seen` is what it has applied now, `message` why it failed."""
    entry = Entry(
        run_id=run_id,
        layer="silver",
        table=table.table,
        batch=seen.batch,
        positions=dict(seen.positions),
        started_at=began.at,
        ended_at=datetime.now(timezone.utc),
        status="ok" if message is None else "failed",
        counts=_sum([each.counts for each in passes]),
        message=message,
        duration_ms=int((time.monotonic() - began.clock) * 1000),
    )
    return Outcome(entry, passes)


def _sum(parts: list[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found
