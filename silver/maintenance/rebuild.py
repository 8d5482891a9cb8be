"""Builds a table's silver anew from bronze, beside the live tables and with the very same job.

A member of a consistency group is built as far as gold shows its group (see
`silver.groups.group_repairs`).

The tables of a rebuild are called by its own name (a folder `lake/_rebuilds/ID`, or names that end
in `__rebuild_ID`) until `silver.maintenance.swap` puts them in place. The live table is read and
written meanwhile as ever: what arrives goes into both. A rebuild that was killed is taken up where
it was, unless the table's YAML has changed since.
"""

import uuid
from collections.abc import Callable
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Aside, Target
from lakehouse.errors import TableFailed
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver.groups import group_repairs
from silver.maintenance import rebuild_steps, swap
from silver.maintenance.rebuild_steps import ABANDONED, BUILDING, Rebuild
from silver.run import SilverTable
from silver.state import snapshots
from silver.state.batch import TableState
from silver.states import applied
from silver.table_runs import recompute_table


def begin(spark: SparkSession, target: Target, table: Table, run_id: str) -> Rebuild:
    """The rebuild of the table to go on with; a new one unless one with this YAML is unfinished."""
    now = rebuild_steps.digest(table)
    for known in rebuild_steps.unfinished(spark, target):
        if known.table != table.table:
            continue
        if known.configuration == now:
            return known
        _abandon(spark, target, known, run_id)
    fresh = Rebuild(uuid.uuid4().hex[:8], table.table, now, 0)
    return rebuild_steps.note(spark, target, fresh, BUILDING, run_id)


def abandon(spark: SparkSession, target: Target, table: Table, run_id: str) -> None:
    """Drops what unfinished rebuilds of the table have written: the next one begins anew."""
    for known in rebuild_steps.unfinished(spark, target):
        if known.table == table.table:
            _abandon(spark, target, known, run_id)


def _abandon(spark: SparkSession, target: Target, known: Rebuild, run_id: str) -> None:
    swap.drop(spark, rebuild_steps.aside(target, known.id))
    rebuild_steps.note(spark, target, known, ABANDONED, run_id)


def build(
    spark: SparkSession, target: Target, table: Table, rebuild: Rebuild, run_id: str,
    progress: Callable[[str], None],
) -> Entry:  # fmt: skip
    """Brings the tables of the rebuild up to bronze; called again it adds what has come since.

    Raises:
        TableFailed: the table cannot be built; the live one is as it was.
    """
    beside = rebuild_steps.aside(target, rebuild.id)
    known = applied(spark, target).get(table.table, TableState())
    reach = None
    if table.consistency_group is not None:
        reach = group_repairs.reach(spark, target, table, known)
    if not names.exists(spark, beside, "silver", ledger.TABLE):
        batch = known.batch if reach is None else reach.newest
        first = ledger.told(run_id, "silver", table.table, datetime.now(timezone.utc))
        _seed(SilverTable(Lake(spark, target), table), beside, known, first.done({}, batch))
    entry = recompute_table(run_id, progress, Lake(spark, beside), table, reach)
    if entry.status == "failed":
        raise TableFailed(table.table, f"{entry.message}; the live table is as it was")
    log = f"{table.table}_changes"
    if names.exists(spark, target, "silver", log) and not names.exists(
        spark, beside, "silver", log
    ):
        raise TableFailed(table.table, "bronze has no record of it; the live table is as it was")
    return entry


def _seed(table: SilverTable, beside: Aside, known: TableState, first: Entry) -> None:
    """Begins the ledger of the rebuild with the entry `first`.

    So the rebuild numbers its batches after those of the live table, and the ledger's newest batch
    never runs back. Where records were erased, the full snapshots that
    had been seen are taken over: the record that ended one may be gone.
    """
    spark = table.spark
    runs = ledger.read(spark, table.target).where(f"table = {names.literal(table.name)}")
    if not runs.where("counts['erased'] IS NOT NULL").isEmpty():
        snapshots.read(spark, beside)
        seen = snapshots.TableChanges(known.whole.sightings, [])
        snapshots.record(spark, beside, {table.name: [(known.batch, seen)]})
    ledger.append(spark, beside, [first])
