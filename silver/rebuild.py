"""Builds a table's silver anew from bronze, beside the live tables and with the very same job.

A member of a consistency group is built as far as gold shows its group (`silver.group_repairs`).

The tables of a rebuild are called by its own name (a folder `lake/_rebuilds/ID`, or names that end
in `__rebuild_ID`) until `silver.swap` puts them in place. The live table is read and written
meanwhile as ever: what arrives goes into both. A rebuild that was killed is taken up where it
was, unless the table's YAML has changed since.
"""

import uuid
from collections.abc import Callable
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from lakehouse import ledger, names
from lakehouse.errors import TableFailed
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Aside, Target
from silver import group_repairs, job, journal, snapshots, swap
from silver.batch import Seen
from silver.group_repairs import Reach
from silver.journal import ABANDONED, BUILDING, Rebuild
from silver.known import applied


def begin(spark: SparkSession, target: Target, table: Table, run_id: str) -> Rebuild:
    """The rebuild of the table to go on with; a new one unless one with this YAML is unfinished."""
    now = journal.digest(table)
    for known in journal.unfinished(spark, target):
        if known.table != table.table:
            continue
        if known.configuration == now:
            return known
        _abandon(spark, target, known, run_id)
    fresh = Rebuild(uuid.uuid4().hex[:8], table.table, now, 0)
    return journal.note(spark, target, fresh, BUILDING, run_id)


def abandon(spark: SparkSession, target: Target, table: Table, run_id: str) -> None:
    """Drops what unfinished rebuilds of the table have written: the next one begins anew."""
    for known in journal.unfinished(spark, target):
        if known.table == table.table:
            _abandon(spark, target, known, run_id)


def _abandon(spark: SparkSession, target: Target, known: Rebuild, run_id: str) -> None:
    swap.drop(spark, journal.aside(target, known.id))
    journal.note(spark, target, known, ABANDONED, run_id)


def build(
    spark: SparkSession, target: Target, table: Table, rebuild: Rebuild, run_id: str,
    progress: Callable[[str], None],
) -> Entry:  # fmt: skip
    """Brings the tables of the rebuild up to bronze; called again it adds what has come since.

    Raises:
        TableFailed: the table cannot be built; the live one is as it was.
    """
    beside = journal.aside(target, rebuild.id)
    known = applied(spark, target).get(table.table, Seen())
    reach = None
    if table.consistency_group is not None:
        reach = group_repairs.reach(spark, target, table, known)
    _seed(spark, target, beside, table, known, reach, run_id)
    entry = job.apply_anew(spark, beside, table, run_id, progress, reach)
    if entry.status == "failed":
        raise TableFailed(table.table, f"{entry.message}; the live table is as it was")
    log = f"{table.table}_changes"
    if names.exists(spark, target, "silver", log) and not names.exists(
        spark, beside, "silver", log
    ):
        raise TableFailed(table.table, "bronze has no record of it; the live table is as it was")
    return entry


def _seed(
    spark: SparkSession, target: Target, beside: Aside, table: Table, known: Seen,
    reach: Reach | None, run_id: str,
) -> None:  # fmt: skip
    """Lets the rebuild number its batches after those of the live table.

    So the ledger's newest batch never runs back. Where records were erased, the full snapshots that
    had been seen are taken over: the record that ended one may be gone.
    """
    if names.exists(spark, beside, "silver", ledger.TABLE):
        return
    runs = ledger.read(spark, target).where(f"table = {names.literal(table.table)}")
    if not runs.where("counts['erased'] IS NOT NULL").isEmpty():
        snapshots.read(spark, beside)
        seen = snapshots.TableChanges(known.whole.sightings, [])
        snapshots.record(spark, beside, {table.table: [(known.batch, seen)]})
    now = datetime.now(timezone.utc)
    batch = known.batch if reach is None else reach.newest
    first = ledger.told(run_id, "silver", table.table, now, batch=batch)
    ledger.append(spark, beside, [first])
