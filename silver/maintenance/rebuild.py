"""Builds a table's silver tables anew from bronze, beside the live ones and with the same job.

A member of a consistency group is built up to the transactions that gold shows of its group (see
`silver.groups.group_repairs`).

The tables of a rebuild are in a folder `lake/_rebuilds/ID`, or have names that end in
`__rebuild_ID`, until `silver.maintenance.swap` puts them in place. Meanwhile the live table is read
and written as usual: new records go into both. A rebuild that was killed is continued, unless the
table's YAML has changed since.
"""

import uuid
from collections.abc import Callable
from datetime import datetime, timezone

from lakehouse.config.table import Table
from lakehouse.errors import TableFailed
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver.groups import group_repairs
from silver.maintenance import swap
from silver.maintenance.swap import BUILDING, Rebuild
from silver.run import SilverTable
from silver.state.epochs import TableChanges
from silver.state.table_state import TableState, read_states
from silver.table_runs import recompute_table


def begin_rebuild(lake: Lake, table: Table, run_id: str) -> Rebuild:
    """The table's unfinished rebuild with this YAML, or else a new one.

    A new rebuild numbers its batches after those of the live table. Where records were erased, it
    takes over the live table's full snapshots: the record that ended one may be gone.

    Raises:
        TableFailed: the table's consistency group shows nothing yet.
    """
    now = swap.digest_of(table)
    for rebuild in swap.list_unfinished(lake):
        if rebuild.table != table.table:
            continue
        if rebuild.configuration == now:
            return rebuild
        swap.drop_rebuild(swap.open_rebuild(lake, rebuild.id))
    live, states = SilverTable(lake, table), read_states(lake)
    state = states.get(table.table, TableState())
    batch = state.batch
    if table.consistency_group is not None:
        batch = group_repairs.find_shown_progress(live, states).newest
    begun = TableState(batch=batch, logged=max(batch, state.logged))
    if _has_erased(live):
        begun = begun.replace(whole=TableChanges(state.whole.snapshot_progress, []))
    fresh = Rebuild(uuid.uuid4().hex[:8], table.table, now, 0)
    first = ledger.make_entry(run_id, "silver", table.table, datetime.now(timezone.utc))
    swap.record_step(lake, fresh, BUILDING)
    ledger.append_entries(swap.open_rebuild(lake, fresh.id), [begun.done(first, {})])
    return fresh._replace(step=BUILDING)


def abandon_rebuilds(lake: Lake, table: Table) -> None:
    """Drops the tables of the table's unfinished rebuilds: the next one begins anew."""
    for rebuild in swap.list_unfinished(lake):
        if rebuild.table == table.table:
            swap.drop_rebuild(swap.open_rebuild(lake, rebuild.id))


def build_tables(
    lake: Lake, table: Table, rebuild: Rebuild, run_id: str,
    progress: Callable[[str], None],
) -> Entry:  # fmt: skip
    """Brings the tables of the rebuild up to bronze; a second call adds later records.

    Raises:
        TableFailed: the table cannot be built; the live one is as it was.
    """
    beside, reach = swap.open_rebuild(lake, rebuild.id), None
    if table.consistency_group is not None:
        member = SilverTable(lake, table)
        reach = group_repairs.find_shown_progress(member, read_states(lake))
    entry = recompute_table(run_id, progress, beside, table, reach)
    if entry.status == "failed":
        raise TableFailed(table.table, f"{entry.message}; the live table is as it was")
    live, built = (SilverTable(at, table).log for at in (lake, beside))
    if live.exists and not built.exists:
        raise TableFailed(table.table, "bronze has no record of it; the live table is as it was")
    return entry


def _has_erased(table: SilverTable) -> bool:
    """Whether records of the table were erased."""
    erased = f"table = {names.literal(table.name)} AND counts['erased'] IS NOT NULL"
    return not ledger.read_entries(table.lake).where(erased).isEmpty()
