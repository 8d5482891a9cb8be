"""Merge on read: silver's table with its pending changes laid over it.

That is done once the oldest pending change has waited for the table's `max_staleness`. Until then
the table alone is read, at the same cost, as the times are compared while the query is planned.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from lakehouse.config.table import Table
from lakehouse.durations import to_seconds
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import quote
from lakehouse.storage.views import WAITING, WAITING_KEYS
from silver.contract import PENDING, waits_in_log


def build_source(lake: Lake, table: Table, kept: str, columns: Sequence[str]) -> str | None:
    """What the table's views read in place of the silver table `kept`; None to read `kept` itself.

    Without a catalog the pending changes are written as {waiting} (`lakehouse.storage.views`).
    """
    waits = f"{table.table}{PENDING}"
    if not waits_in_log(lake.target, table):
        return None
    of_rows, of_keys = WAITING, WAITING_KEYS
    if lake.target.catalog:
        if not lake.exists("silver", waits):
            return None
        of_rows = of_keys = lake.name("silver", waits)
    shown = [c for c in columns if not c.startswith("_") or c in ("_order", "_deleted")]
    waiting = WaitingRows(of_rows, of_keys, shown, to_seconds(table.max_staleness or 0))
    held = lake.name("silver", kept)
    return render_merged(held, columns, waiting, table.keys, table.nullable_keys)


class WaitingRows(NamedTuple):
    """The pending changes of a table of silver.

    Attributes:
        rows: their SQL name.
        of_keys: SQL name of their keys, where those alone are cheaper to read.
        columns: their columns; some of them may be missing as long as nothing is pending.
        promised: for how many seconds they may wait before they are laid over the table.
    """

    rows: str
    of_keys: str
    columns: Sequence[str]
    promised: int


def render_merged(
    rows: str,
    columns: Sequence[str],
    waiting: WaitingRows,
    same: Sequence[str],
    nullable: Collection[str] = (),
) -> str:
    """SQL of silver's rows without those that a pending row replaces, and of the pending rows.

    A pending row replaces a row that has the same values in the columns `same`; null equals null in
    those that are also `nullable`.
    """
    pending, of_keys, waiting_columns, promised = waiting
    late = f"current_timestamp() >= _since + INTERVAL {promised} SECONDS"
    when = f" WHERE {late}" if promised else ""
    chosen = ", ".join(f"held.{quote(c)}" for c in columns)
    given = ", ".join(quote(c) if c in waiting_columns else f"NULL AS {quote(c)}" for c in columns)
    on = names.agree_on("held", "waiting", same, nullable)
    keys = ", ".join(quote(c) for c in same)
    return (
        f"(SELECT /*+ BROADCAST(waiting) */ {chosen} FROM {rows} AS held LEFT ANTI JOIN"
        f" (SELECT {keys} FROM {of_keys}{when}) AS waiting ON {on}"
        f" UNION ALL SELECT {given} FROM {pending}{when})"
    )
