"""Gaps that silver finds: closed by a new full snapshot, or failures of their tables."""

from collections.abc import Sequence

from lakehouse.config.table import Table
from lakehouse.run import gaps
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal
from silver.state.table_state import read_states


def check_gaps(lake: Lake, tables: Sequence[Table], entries: Sequence[Entry]) -> list[Entry]:
    """Closes gaps as `close_gaps` does; returns the entries, failed where positions run backwards.

    Not those of tables with `on_data_loss: continue`. The records are applied in any case.
    """
    close_gaps(lake, tables)
    left = [gap for gap in gaps.open_gaps(lake) if gap.kind == "positions"]
    fails = gaps.list_strict(tables)
    return [gaps.with_loss(entry, left) if entry.table in fails else entry for entry in entries]


def close_gaps(lake: Lake, tables: Sequence[Table]) -> None:
    """Closes every open gap that a complete snapshot of its table has come after.

    A snapshot comes after a gap when it began, by the source's clock, after the gap was found.
    """
    lacking = {gap.table for gap in gaps.open_gaps(lake)} & {t.table for t in tables}
    if not lacking:
        return
    states = read_states(lake)
    for table in sorted(lacking & set(states)):
        epochs = states[table].whole.epochs
        begun = [epoch.started for epoch in epochs if epoch.complete and epoch.started]
        if begun:
            later = f"unix_micros(found_at) < {max(begun)}"
            gaps.close_gaps(lake, f"`table` = {literal(table)} AND {later}")
