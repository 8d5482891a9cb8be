"""One pass over one table: what is new goes into the change log, and from there into the table."""

from collections.abc import Mapping
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.memory import Arrived
from lakehouse.table import Table
from lakehouse.target import Target
from silver import (
    account,
    built,
    dead_letters,
    deferral,
    lateness,
    layout,
    log,
    order,
    pending,
    reading,
    unapplied,
)
from silver.batch import Batch, Seen
from silver.contract import waits_in_log
from silver.extension import Shown, extend, finish
from silver.extract_job import apply_extracts
from silver.fold.spark import Counts
from silver.merge.current import write_current
from silver.merge.history import write_history
from silver.merge.keyless import write_keyless
from silver.order import Placed
from silver.passes import Pass
from silver.pending import Staged
from silver.snapshots import TableChanges
from silver.summary import Summary, summarize


def apply_new(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
    shown: Shown | None = None,
) -> Pass:
    """Decodes what bronze has gained up to the batches `newest` into the log, and applies it.

    `shown` gets the columns of the batch.
    """
    after, summary = extend(spark, target, table, run_id, seen, newest, seen.batch, shown)
    rows = log.read(spark, target, table).where(F.col("_batch") <= after.batch)
    return apply_part(spark, target, table, run_id, rows, seen, after, summary)


def apply_ahead(
    spark: SparkSession, target: Target, table: Table, run_id: str, seen: Seen, newest: int
) -> Pass:
    """Applies what the log holds up to `newest` beyond what the ledger says is applied.

    So a run that was killed is brought to its end. Effects that are there already do not change.
    """
    finish(spark, target, table, run_id, seen, newest)
    lateness.reject(spark, target, table, seen.batch, seen.horizon)
    rows = log.read(spark, target, table).where(F.col("_batch") <= newest)
    after = _logged(rows, seen, newest)
    return apply_part(spark, target, table, run_id, rows, seen, after)


def apply_days(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
) -> Pass:
    """Compares and applies extracts."""
    built.check_types(table, layout.learned(spark, target, table))
    after, counts = apply_extracts(spark, target, table, run_id, seen, newest, write_batch)
    return Pass(after, counts, TableChanges([], []), False)


def extended(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    logged: int,
    found: Mapping[str, Arrived],
    shown: Shown | None = None,
) -> tuple[Seen, Summary | None]:
    """Brings a table's log up to bronze without applying it.

    Returns what the log holds then, and the summary of what it holds above the batch of `seen`
    where one write told all of it.
    """
    newest, applied, waits = reading.reaches(table, found), seen.batch, seen.waits
    alone = logged <= applied
    if not alone and waits is None:
        finish(spark, target, table, run_id, seen, logged)
        lateness.reject(spark, target, table, applied, seen.horizon)
        seen = _logged(log.read(spark, target, table), seen, logged)
    seen = seen._replace(batch=max(logged, applied))
    if reading.has_new(table, seen.positions, found):
        after, summary = extend(spark, target, table, run_id, seen, newest, applied, shown)
        if summary is not None and waits is not None:
            return after, waits.joined(summary)
        return after, summary if alone else None
    return seen._replace(positions=dict(seen.positions) | newest), waits


def apply_or_wait(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    after: Seen,
    summary: Summary | None,
) -> Pass | None:
    """Applies what the log holds above the batch of `seen`, or keeps it for the readers to merge.

    None where nothing is new and what waits may go on waiting. `summary` is what the log holds
    above that batch, where it is known.
    """
    if after.batch == seen.batch:
        return None
    due = deferral.is_due(table, seen, datetime.now(timezone.utc))
    if not due and pending.until(spark, target, table) == after.batch:
        return None
    rows = log.read(spark, target, table).where(F.col("_batch") <= after.batch)
    return apply_part(spark, target, table, run_id, rows, seen, after, summary, due)


def apply_part(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    rows: DataFrame,
    seen: Seen,
    after: Seen,
    summary: Summary | None = None,
    due: bool = True,
) -> Pass:
    """Applies the rows of the log above the batch of `seen`; `rows` are all up to that of `after`.

    What is not due, and not too much, only comes in sight of the readers (see `silver.pending`).
    `summary` is what the rows above that batch hold, where it is known.

    Raises:
        AccountMismatch: the outcomes do not add up to the records.
    """
    new = order.new_rows(rows, seen)
    summary = summary or summarize(new)
    placed = order.place(table, rows, seen, after.batch, summary)
    promises, staged = table.max_staleness is not None, None
    if promises and not waits_in_log(target, table):
        staged = pending.stage(spark, target, table, placed, seen.batch, summary.came)
    waits = staged is not None and not due and deferral.may_wait(summary.records)
    counts = None if waits else _apply(spark, target, table, placed, staged)
    judged = rows if placed.recomputes else new
    dead_letters.keep(spark, target, table, placed, summary, judged, run_id)
    if counts is None:
        came = summary.records - seen.pending
        noted = {"records": came, "pending": came}
        return Pass(seen, noted, TableChanges([], []), False, after.batch)
    found = account.outcomes(table.table, summary, counts, seen.pending)
    found |= {"bytes": pending.size(spark, target, table)} if promises else {}
    partial, heirs = seen.partial or summary.incomplete > 0, seen.heirs or summary.heirs > 0
    ties = seen.ties or counts.ties > 0
    after = after._replace(partial=partial, heirs=heirs, ties=ties, whole=placed.new, pending=0)
    after = after._replace(waits=None)
    return Pass(after, found, order.fresh(placed, seen.whole), placed.recomputes)


def _apply(
    spark: SparkSession, target: Target, table: Table, placed: Placed, staged: Staged | None
) -> Counts:
    """Writes a batch into the table, from the rows that are kept of it where there are any.

    Pending rows of an earlier batch are cleared before the table is written, so that a reader never
    sees old pending rows over newer data.
    """
    if staged is not None:
        pending.write(spark, target, table, placed.batch, staged.rows)
        pending.clear(spark, target, table, placed.batch)
        return staged.counts
    pending.clear(spark, target, table, placed.batch)
    counts = write_batch(spark, target, table, placed.batch, placed.recomputes)
    unapplied.hide(target, table)
    return counts


def _logged(rows: DataFrame, seen: Seen, newest: int) -> Seen:
    """What a table has seen when its log, up to `newest`, is all applied."""
    done = dict(seen.positions) | log.positions(rows.where(F.col("_batch") > seen.batch))
    return seen._replace(batch=newest, positions=done)


def write_batch(
    spark: SparkSession, target: Target, table: Table, batch: Batch, replaces: bool
) -> Counts:
    """Folds a batch into the table; `replaces` says that the batch is all there is."""
    if not table.keys:
        return write_keyless(spark, target, table, batch, replaces)
    write = write_history if table.stored_as_scd_type == 2 else write_current
    return write(spark, target, table, batch, replaces)
