"""A pass over a table, and what a run tells of a table's passes."""

from datetime import datetime
from typing import NamedTuple

from lakehouse import ledger
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


def told(
    table: Table, run_id: str, seen: Seen, passes: list[Pass], message: str | None, began: datetime
) -> Outcome:
    """The outcome of a table: `seen` is what it has applied now, `message` why it failed."""
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
    return Outcome(entry, passes)


def _sum(parts: list[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found
