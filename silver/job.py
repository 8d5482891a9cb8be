"""Silver's job: ends rebuilds that were killed while they swapped, then runs every table."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver.maintenance import swap
from silver.run import Progress, Run
from silver.table_runs import run_tables


def apply(
    lake: Lake, tables: list[Table], run_id: str, progress: Progress, memory: Memory | None = None
) -> list[Entry]:
    """Brings every table up to what bronze holds.

    One ledger entry each, and a failure stops no other. `memory` is the run's, where it has one.
    """
    run, began = Run(run_id, progress, memory or Memory()), datetime.now(timezone.utc)
    ended = swap.end_all(lake, tables)
    for name in ended:
        run.memory.tables.pop(name, None)
    messages = _find_half_swapped(tables, ended)
    failed = [
        ledger.make_entry(run_id, "silver", name, began, text) for name, text in messages.items()
    ]
    ledger.append_entries(lake, failed)
    whole = [table for table in tables if table.table not in messages]
    return [*failed, *run_tables(run, lake, whole)]


def _find_half_swapped(tables: Sequence[Table], ended: Mapping[str, str | None]) -> dict[str, str]:
    """Why tables cannot be applied: their swap failed, or that of a member of their group."""
    messages = {name: message for name, message in ended.items() if message is not None}
    groups = {t.consistency_group: t.table for t in tables if t.table in messages}
    groups.pop(None, None)
    reasons = dict[str, str]()
    for table in tables:
        other = groups.get(table.consistency_group)
        if table.table in messages:
            reasons[table.table] = messages[table.table]
        elif other is not None:
            reasons[table.table] = f"{other}, which is in the same group, failed: {messages[other]}"
    return reasons


def apply_all(lake: Lake, tables: list[Table], run_id: str, progress: Progress) -> list[Entry]:
    """Brings every table up to what bronze holds, and merges all pending changes."""
    memory = Memory()
    memory.merge_all = True
    return apply(lake, tables, run_id, progress, memory)
