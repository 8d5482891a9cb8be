"""What became of every record of a table run: each has exactly one outcome, and they add up.

`inserted`, `updated`, `deleted` and `delete_unknown` (there was no row) changed what the table
shows; `superseded` lost against a newer change; `duplicate` is a record that the key's stored row
shows to have come before; `late` came after a newer change of its key had been applied, and was
inserted into the history or gave a row the columns that no newer change carries. The fold counts
these (`silver.fold.arrow`). `truncate`, `without_change`, `filtered` and `dead_letter:<reason>` are
counted in the change log. A table with a history applies every change; in one without, a run
applies only the newest change of a key and the others are superseded. Records that an earlier run
has counted as `pending` (see `silver.freshness`) are not counted as records again, but subtracted
from `pending`. A dead letter is counted by the run that finds it, even if the other records stay
pending.
"""

from collections.abc import Mapping

from lakehouse.errors import AccountMismatch
from silver.contract import ACCOUNT_NOTES, FILTERED
from silver.fold.spark import Counts
from silver.state.summary import Summary
from silver.state.table_state import TableState


def count_outcomes(
    table: str, summary: Summary, counts: Counts, before: TableState
) -> dict[str, int]:
    """Counts the records of a run by outcome.

    Args:
        table: the table's name.
        summary: the kinds of the records.
        counts: the outcomes of the changes among them.
        before: the table's state before the run, with what is counted already.

    Returns:
        The outcomes that occur; beside them `records`, their sum, and the notes: changes without
        all columns, those that moved from another key, and ties broken by arrival.

    Raises:
        AccountMismatch: the outcomes do not add up to the records.
    """
    outcomes = {f"dead_letter:{reason}": n for reason, n in summary.rejected.items()}
    outcomes |= {"truncate": summary.truncates, "without_change": summary.without_change}
    outcomes[FILTERED] = summary.filtered
    outcomes |= counts.outcomes
    check_sum(table, summary.records, outcomes)
    outcomes |= new_letters(summary, before.counted)
    notes = {
        "incomplete": summary.incomplete,
        "key_changes": summary.key_changes,
        "ties": counts.ties,
    }
    notes["pending"] = -before.pending
    kept = {name: n for name, n in (outcomes | notes).items() if n}
    return {"records": summary.records - before.known_records} | kept


def new_letters(summary: Summary, counted: Mapping[str, int]) -> dict[str, int]:
    """The dead letters, by outcome, that no run has counted yet."""
    rejected = summary.rejected.items()
    return {f"dead_letter:{reason}": n - counted.get(reason, 0) for reason, n in rejected}


def check_sum(table: str, records: int, counts: dict[str, int]) -> None:
    """Raises AccountMismatch unless the outcomes add up to the records and none is negative."""
    outcomes = {name: n for name, n in counts.items() if name not in ACCOUNT_NOTES}
    if sum(outcomes.values()) != records or min(outcomes.values(), default=0) < 0:
        raise AccountMismatch(table, records, outcomes)
