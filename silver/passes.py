"""A pass over a table, and what a run tells of a table's passes."""

from datetime import datetime
from typing import NamedTuple

from lakehouse import ledger
from lakehouse.ledger import Entry
from lakehouse.table import Table
from silver.batch import Seen
from silver.snapshots import TableChanges


class Pass(NamedTuple):
    """One pass over a table: its batch, what became of the records, and what it showed at large.

    `logged` is the newest batch of the change log, where more is there than was applied.
    """

    seen: Seen
    counts: dict[str, int]
    whole: TableChanges
    recomputed: bool
    logged: int = 0


class Outcome(NamedTuple):
    """What came of one table: its ledger entry, its passes, and its change log's newest batch."""

    entry: Entry
    passes: list[Pass]
    logged: int


def told(
    table: Table,
    run_id: str,
    seen: Seen,
    passes: list[Pass],
    message: str | None,
    began: datetime,
    logged: int,
) -> Outcome:
    """The outcome of a table: `seen` is what it has applied now, `message` why it failed.

    `logged` is the newest batch that its change log was known to hold.
    """
    counts = _sum([each.counts for each in passes])
    entry = ledger.told(
        run_id,
        "silver",
        table.table,
        began,
        message,
        counts=counts,
        batch=seen.batch,
        positions=seen.positions,
    )
    newest = max([logged, *(max(each.logged, each.seen.batch) for each in passes)])
    return Outcome(entry, passes, newest)


def _sum(parts: list[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found
