"""Passes over a table whose changes are shown from its change log, and applied when it pays."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.local_settings import SMALL
from lakehouse.memory import Arrived, Memory
from lakehouse.table import Table
from lakehouse.target import Target
from silver import dead_letters, deferral, log, order, pending, unapplied
from silver.batch import Seen
from silver.passes import Pass
from silver.snapshots import TableChanges
from silver.summary import Summary, summarize
from silver.table_pass import apply_part, extended

# Of a small table, a MERGE of so many changes takes longer to compile than to interpret.
_LITTLE = 50_000


def passes(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    logged: int,
    found: Mapping[str, Arrived],
    memory: Memory,
) -> Iterator[Pass]:
    """Brings the log up to bronze and shows what it gained; applies it all when due, or very much.

    What cannot be shown is applied at once, after what was shown before it: a reader sees one state
    after the other. `memory` is the run's.
    """
    alone, now = table.table in memory.alone, datetime.now(timezone.utc)
    due = deferral.is_due(table, seen, now, memory.among, alone)
    session = memory.session_for(spark, table.table)
    after, summary = extended(session, target, table, run_id, seen, logged, found, memory.shown)
    shown = max(unapplied.until(target, table), seen.batch)
    if after.batch == seen.batch or (shown >= after.batch and not due):
        return
    if due and memory.brief is not None and _is_little(spark, target, table, summary):
        spark = memory.brief
    rows = log.read(spark, target, table).where(F.col("_batch") <= after.batch)
    new = order.new_rows(rows, seen)
    summary = summary or summarize(new)
    placed = order.place(table, rows, seen, after.batch, summary)
    if not unapplied.shows(spark, target, table, placed, summary, seen):
        after = after._replace(highest=None)
        if shown > seen.batch:
            before = rows.where(F.col("_batch") <= shown)
            to = after._replace(batch=shown)
            first = apply_part(spark, target, table, run_id, before, seen, to)
            yield first
            seen, summary = first.seen, None
        yield apply_part(spark, target, table, run_id, rows, seen, after, summary)
        return
    known = unapplied.show(spark, target, table, placed, summary, seen)
    if due or not deferral.may_wait(summary.records):
        highest = after._replace(highest=known.highest)
        yield apply_part(spark, target, table, run_id, rows, seen, highest, known.waits)
        return
    if seen.waits is None or seen.waits.rejected != summary.rejected:
        dead_letters.keep(spark, target, table, placed, summary, new, run_id)
    came = summary.records - seen.pending
    counts = {"records": came, "pending": came}
    yield Pass(known, counts, TableChanges([], []), False, after.batch)


def _is_little(spark: SparkSession, target: Target, table: Table, summary: Summary | None) -> bool:
    """Whether few changes, as far as is known, are to be applied to a small table."""
    if summary is None or summary.records > _LITTLE:
        return False
    held = names.exists(spark, target, "silver", table.table)
    return not held or pending.size(spark, target, table) < SMALL
