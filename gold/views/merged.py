"""Reading what is not merged yet: silver's table with the rows that wait laid over it.

What waits is laid over the table once the oldest of it has waited for as long as the table's
`max_staleness` allows: until then the read is that of the table alone, at the same cost, as the
moment is compared with the time of the query while that is planned.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.durations import seconds
from lakehouse.storage import names
from lakehouse.storage.names import quote
from lakehouse.storage.views import WAITING, WAITING_KEYS
from silver.contract import PENDING, waits_in_log


def build_source(
    spark: SparkSession, target: Target, table: Table, kept: str, columns: Sequence[str]
) -> str | None:
    """What the table's views read in place of the silver table `kept`; None for that table itself.

    In a lake without a catalog what waits stands in it as {waiting} (`lakehouse.storage.views`).
    """
    waits = f"{table.table}{PENDING}"
    if not waits_in_log(target, table):
        return None
    of_rows, of_keys = WAITING, WAITING_KEYS
    if target.catalog:
        if not names.exists(spark, target, "silver", waits):
            return None
        of_rows = of_keys = names.name(target, "silver", waits)
    shown = [c for c in columns if not c.startswith("_") or c in ("_order", "_deleted")]
    waiting = WaitingRows(of_rows, of_keys, shown, seconds(table.max_staleness or 0))
    held = names.name(target, "silver", kept)
    return render_merged(held, columns, waiting, table.keys, table.nullable_keys)


class WaitingRows(NamedTuple):
    """What waits for a table of silver.

    Attributes:
        rows: its SQL name.
        of_keys: SQL name of what has its keys, where those alone are cheaper to have.
        columns: its columns, of which some may be missing for as long as nothing waits.
        promised: for how many seconds it may wait before it is laid over the table.
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
    """The rows but those that a waiting row replaces, and the waiting rows.

    Args:
        rows: SQL name of silver's table.
        columns: its columns.
        waiting: what waits for it.
        same: the columns that tell which row replaces which.
        nullable: the columns among these in which null equals null.
    """
    pending, of_keys, waiting_columns, promised = waiting
    late = f"current_timestamp() >= _since + INTERVAL {promised} SECONDS"
    when = f" WHERE {late}" if promised else ""
    chosen = ", ".join(f"held.{quote(c)}" for c in columns)
    given = ", ".join(quote(c) if c in waiting_columns else f"NULL AS {quote(c)}" for c in columns)
    on = names.same("held", "waiting", same, nullable)
    keys = ", ".join(quote(c) for c in same)
    return (
        f"(SELECT /*+ BROADCAST(waiting) */ {chosen} FROM {rows} AS held LEFT ANTI JOIN"
        f" (SELECT {keys} FROM {of_keys}{when}) AS waiting ON {on}"
        f" UNION ALL SELECT {given} FROM {pending}{when})"
    )
