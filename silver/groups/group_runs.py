"""The runs of all consistency groups, and what they come to for each table."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from silver.groups import group_run, group_state
from silver.groups.group_run import Group, Moved, Steps
from silver.groups.transactions import Waiting
from silver.run import Run
from silver.state.batch import TableState
from silver.table_result import Outcome, outcome_of


def advance(
    run: Run,
    lake: Lake,
    tables: Sequence[Table],
    known: Mapping[str, TableState],
    steps: Steps,
    held: tuple[Waiting, ...] | None = None,
) -> list[Outcome]:
    """One run of each group that the tables are in; `held` waits, where that is known already.

    Where the groups got to is kept in one commit before anything is written to the ledger: a run
    that is killed in between runs its groups again.
    """
    members = group_run.groups_of(tables)
    states = group_state.read(lake.spark, lake.target) if members else {}
    outcomes, new = list[Outcome](), False
    for name, of in members.items():
        run.progress(f"silver {', '.join(table.table for table in of)}")
        began = datetime.now(timezone.utc)
        before = states.get(name, [])
        moved = group_run.move(lake, Group(name, of, before), known, steps, held)
        if moved.state is not None:
            states[name] = [moved.state, *before]
        outcomes += [_outcome(run, table, known[table.table], moved, began) for table in of]
        new = new or moved.state is not None
    if new:
        group_state.write(lake.spark, lake.target, states)
    return outcomes


def _outcome(run: Run, table: Table, before: TableState, moved: Moved, began: datetime) -> Outcome:
    done, message = moved.passes.get(table.table), moved.messages.get(table.table)
    state = done.state if done else _unmoved(before, moved, table)
    entry = ledger.told(run.id, "silver", table.table, began, message)
    logged = moved.after.get(table.table, state).batch
    return outcome_of(entry, state, [done] if done else [], logged)


def _unmoved(state: TableState, moved: Moved, table: Table) -> TableState:
    """What a member has applied that had nothing to apply: it need not look there again."""
    after = moved.after.get(table.table, state)
    if moved.messages or after.batch != state.batch:
        return state
    return state._replace(positions=after.positions)
