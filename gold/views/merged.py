"""Reading what is not applied yet: silver's table with the rows that wait for it laid over it.

They are laid over it once the oldest of them has waited for as long as the table's `max_staleness`
allows. The moment is written into the view when it is published, and compared with the time of the
query while that is planned: until then the read is that of the table alone, at the same cost. What
comes after the publication cannot be due before it is one promise old.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.views.catalog import columns_of
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.durations import seconds
from lakehouse.storage import names
from lakehouse.storage.names import quote
from lakehouse.storage.views import WAITING, WAITING_KEYS
from silver.contract import PENDING, waits_in_log


def source(
    spark: SparkSession, target: Target, table: Table, kept: str, columns: Sequence[str]
) -> str | None:
    """What the table's views read in place of the silver table `kept`; None for that table itself.

    What waits of a table that is shown from its log stands in it as {waiting}, see
    `lakehouse.storage.views`.
    Else nothing waits in tables without `max_staleness`, and in none before its first load.
    """
    waits = f"{table.table}{PENDING}"
    if waits_in_log(target, table):
        shown = [c for c in columns if not c.startswith("_") or c in ("_order", "_deleted")]
        held = names.name(target, "silver", kept)
        waiting = Waiting(WAITING, WAITING_KEYS, shown, None)
        return query(held, columns, waiting, table.keys, table.nullable_keys)
    if table.max_staleness is None or not names.exists(spark, target, "silver", waits):
        return None
    rows, pending = (names.name(target, "silver", name) for name in (kept, waits))
    known = columns_of(spark, target, waits)
    same = ["_row"] if not table.keys else [*table.keys]
    same += ["_order"] if table.stored_as_scd_type == 2 else []
    due = _due(spark, pending, seconds(table.max_staleness))
    return query(rows, columns, Waiting(pending, pending, known, due), same, table.nullable_keys)


class Waiting(NamedTuple):
    """What waits for a table of silver.

    Attributes:
        rows: its SQL name.
        of_keys: SQL name of what has its keys, where those alone are cheaper to have.
        columns: its columns, of which some may be missing for as long as nothing waits.
        due: from when on it is laid over the table, in µs since 1970; None for always.
    """

    rows: str
    of_keys: str
    columns: Sequence[str]
    due: int | None


def query(
    rows: str,
    columns: Sequence[str],
    waiting: Waiting,
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
    pending, of_keys, known, due = waiting
    when = "" if due is None else f" WHERE current_timestamp() >= timestamp_micros({due})"
    chosen = ", ".join(f"held.{quote(c)}" for c in columns)
    given = ", ".join(quote(c) if c in known else f"NULL AS {quote(c)}" for c in columns)
    on = names.same("held", "waiting", same, nullable)
    keys = ", ".join(quote(c) for c in same)
    return (
        f"(SELECT /*+ BROADCAST(waiting) */ {chosen} FROM {rows} AS held LEFT ANTI JOIN"
        f" (SELECT {keys} FROM {of_keys}{when}) AS waiting ON {on}"
        f" UNION ALL SELECT {given} FROM {pending}{when})"
    )


def _due(spark: SparkSession, pending: str, promised: int) -> int | None:
    """When a change will have waited for so many seconds, in µs since 1970; None if none may."""
    if promised == 0:
        return None
    oldest = spark.table(pending).agg(F.unix_micros(F.min("_since")).alias("at")).collect()[0]["at"]
    now = int(datetime.now(timezone.utc).timestamp() * 1_000_000)
    return (now if oldest is None else min(oldest, now)) + promised * 1_000_000
