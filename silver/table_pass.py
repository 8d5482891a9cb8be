"""One pass over one table: what is new goes into the change log, and from there into the table."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
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
from silver.apply import apply_current
from silver.batch import Batch, Seen
from silver.contract import waits_in_log
from silver.extension import Shown, extend, finish
from silver.extract_job import apply_extracts
from silver.history import apply_history
from silver.keyless import apply_keyless
from silver.order import Placed
from silver.passes import Pass
from silver.snapshots import TableChanges
from silver.stages import apart
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
    after, counts = apply_extracts(spark, target, table, run_id, seen, newest, _write)
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
    Where a change that came again may win a tie, the keys of the batch are folded anew.
    `summary` is what the rows above that batch hold, where it is known.

    Raises:
        AccountMismatch: the classes do not add up to the records.
    """
    new = apart(rows.where(F.col("_batch") > seen.batch))
    summary = summary or summarize(new)
    placed = order.place(spark, target, table, rows, new, seen, after.batch, summary)
    arrived = None
    if account.may_tie(table, summary, seen):
        arrived = account.arrivals(table, rows, seen.batch, summary)
        if account.turns_a_tie(table, summary, arrived, seen):
            placed = order.anew(table, rows, new, placed)
    promises, staged = table.max_staleness is not None, None
    if promises and not waits_in_log(target, table):
        staged = pending.stage(spark, target, table, placed, seen.batch, summary.came)
    waits = staged is not None and not due and deferral.may_wait(summary.records)
    # A batch's time is largely that of one thread, which plans: what is new is counted beside it.
    with ThreadPoolExecutor(1) as beside:
        counted = None
        if not waits:
            if arrived is None and seen.batch:
                counted = beside.submit(account.arrivals, table, rows, seen.batch, summary)
            _apply(spark, target, table, placed, staged)
        judged = rows if placed.refold else new
        dead_letters.keep(spark, target, table, placed, summary, judged, run_id)
    if waits:
        came = summary.records - seen.pending
        counts = {"records": came, "pending": came}
        return Pass(seen, counts, TableChanges([], []), False, after.batch)
    expected = arrived is not None
    if arrived is None:
        arrived = counted.result() if counted else account.first(table, rows, placed, summary)
    if not expected and account.turns_a_tie(table, summary, arrived, seen):
        placed = order.anew(table, rows, new, placed)
        _write(spark, target, table, placed.batch, placed.refold)
    counts = account.classes(spark, target, table, placed, summary, arrived, seen)
    counts |= {"bytes": pending.size(spark, target, table)} if promises else {}
    partial, heirs = seen.partial or summary.incomplete > 0, seen.heirs or summary.heirs > 0
    ties = seen.ties or arrived.ties > 0
    after = after._replace(partial=partial, heirs=heirs, ties=ties, whole=placed.new, pending=0)
    after = after._replace(waits=None)
    return Pass(after, counts, order.fresh(placed, seen.whole), placed.refold)


def _apply(
    spark: SparkSession, target: Target, table: Table, placed: Placed, staged: DataFrame | None
) -> None:
    """Writes a batch into the table, from the rows that are kept of it where there are any.

    Rows that are kept of no batch, or of an earlier one, are laid over no table that went on.
    """
    if staged is not None:
        pending.write(spark, target, table, placed.batch, staged)
        pending.clear(spark, target, table, placed.batch)
        return
    pending.clear(spark, target, table, placed.batch)
    _write(spark, target, table, placed.batch, placed.refold)
    unapplied.hide(target, table)


def _logged(rows: DataFrame, seen: Seen, newest: int) -> Seen:
    """What a table has seen when its log, up to `newest`, is all applied."""
    done = dict(seen.positions) | log.positions(rows.where(F.col("_batch") > seen.batch))
    return seen._replace(batch=newest, positions=done)


def _write(spark: SparkSession, target: Target, table: Table, batch: Batch, refold: bool) -> None:
    if not table.keys:
        apply_keyless(spark, target, table, batch, refold)
    elif table.stored_as_scd_type == 2:
        apply_history(spark, target, table, batch, refold)
    else:
        apply_current(spark, target, table, batch, refold)
