"""What a table run applied, and what a run of silver tells of a table."""

from typing import NamedTuple

from lakehouse.run.ledger import Entry
from silver.decode.debezium.events.source_log import to_text
from silver.state.batch import TableState
from silver.state.snapshots import TableChanges


class Pass(NamedTuple):
    """What one application of the change log did to a table.

    Attributes:
        state: what the table has applied after it.
        counts: what became of the records.
        whole: the snapshots and truncates that it showed.
        recomputed: whether the table was recomputed from its whole log.
        logged: the newest batch of the change log, where more is there than was applied.
    """

    state: TableState
    counts: dict[str, int]
    whole: TableChanges
    recomputed: bool
    logged: int = 0


class Outcome(NamedTuple):
    """What came of one table: its ledger entry, its passes, and its change log's newest batch."""

    entry: Entry
    passes: list[Pass]
    logged: int

    def with_waiting(self, records: int) -> "Outcome":
        """The same where so many records wait in bronze; the ledger keeps nothing of them yet."""
        return self._replace(entry=self.entry.model_copy(update={"counts": {"waiting": records}}))


def outcome_of(entry: Entry, state: TableState, passes: list[Pass], logged: int) -> Outcome:
    """The outcome of a table.

    Args:
        entry: the ledger entry of the table's run, without counts.
        state: what the table has applied now.
        passes: what was applied, in order.
        logged: the newest batch that the change log was known to hold.
    """
    counts = _sum([each.counts for each in passes])
    positions = dict(state.positions)
    logs = {name: to_text(reached) for name, reached in state.logs.items()}
    filled = {"counts": counts, "batch": state.batch, "positions": positions, "logs": logs}
    newest = max([logged, *(max(each.logged, each.state.batch) for each in passes)])
    return Outcome(entry.model_copy(update=filled), passes, newest)


def _sum(parts: list[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found
