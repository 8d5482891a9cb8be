"""Silver's job, table by table: decode, gate, sequence, apply, record."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import ledger
from lakehouse.errors import LakehouseError, in_short
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Target
from silver import (
    account,
    built,
    dead_letters,
    lateness,
    layout,
    log,
    order,
    reading,
    schema_drift,
    snapshots,
    swap,
)
from silver.apply import apply_current
from silver.batch import Batch, Seen
from silver.decode import decode
from silver.expectations import gate
from silver.extract_job import apply_extracts
from silver.history import apply_history
from silver.keyless import apply_keyless
from silver.reading import Arrived
from silver.snapshots import TableChanges

Progress = Callable[[str], None]

AT_ONCE = 3


class Pass(NamedTuple):
    """One pass over a table: its batch, what became of the records, and what it showed at large."""

    seen: Seen
    counts: dict[str, int]
    whole: TableChanges
    refolded: bool


class Outcome(NamedTuple):
    """What came of one table: its ledger entry and its passes."""

    entry: Entry
    passes: list[Pass]


def apply(
    spark: SparkSession, target: Target, tables: list[Table], run_id: str, progress: Progress
) -> list[Entry]:
    """Brings every table up to what bronze holds.

    One ledger entry each, and a failure stops no other.

    Tables are independent of each other: a few are worked on at the same time, so that the planning
    of one fills the time in which another one's tasks run.
    """
    swap.end_all(spark, target, run_id)
    seen = applied(spark, target)
    remembered = built.read(spark, target)
    known = {
        table.table: seen.get(table.table, Seen())._replace(built=remembered.get(table.table, {}))
        for table in tables
    }
    done = {table: dict(of.positions) for table, of in known.items()}
    found = reading.arrived(spark, target, tables, done)
    logged = log.newest_batches(spark, target, tables)

    def work(table: Table) -> Outcome:
        progress(f"silver {table.table}")
        ahead = logged.get(table.table, 0)
        return _outcome(spark, target, table, run_id, known[table.table], ahead, found)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(work, tables))
    _record(spark, target, outcomes, known)
    return [outcome.entry for outcome in outcomes]


def _record(
    spark: SparkSession, target: Target, outcomes: list[Outcome], known: Mapping[str, Seen]
) -> None:
    """Keeps what the run did, in two commits for all tables; nothing when nothing came.

    A run that is killed before applies its batches again, which changes nothing.
    """
    for outcome in outcomes:
        if any(each.refolded for each in outcome.passes):
            snapshots.forget(spark, target, outcome.entry.table)
    shown = {o.entry.table: [(p.seen.batch, p.whole) for p in o.passes] for o in outcomes}
    snapshots.record(spark, target, shown)
    entries = [outcome.entry for outcome in outcomes]
    if any(entry.counts or entry.status == "failed" for entry in entries):
        moved = [e for e in entries if e.positions != dict(known[e.table].positions)]
        failed = [e for e in entries if e.status == "failed" and e not in moved]
        ledger.append(spark, target, [*moved, *failed])


def applied(spark: SparkSession, target: Target) -> dict[str, Seen]:
    """What each table has applied, from the ledger and the table-wide changes."""
    whole, late = snapshots.read(spark, target), lateness.horizons(spark, target)
    runs = ledger.read(spark, target).where("layer = 'silver' AND status = 'ok'")
    found = runs.groupBy("table").agg(
        F.max("batch").alias("batch"),
        F.max_by("positions", F.struct("batch", "ended_at")).alias("positions"),
        F.count_if(F.col("counts")["incomplete"] > 0).alias("partial"),
        F.count_if(F.col("counts")["heirs"] > 0).alias("heirs"),
    )
    none = TableChanges([], [])
    seen = {
        r["table"]: Seen(
            int(r["batch"] or 0), r["positions"] or {}, bool(r["partial"]), bool(r["heirs"]), none
        )
        for r in found.collect()
    }
    return {
        table: seen.get(table, Seen())._replace(
            whole=whole.get(table, none), horizon=late.get(table)
        )
        for table in {*seen, *whole, *late}
    }


def _outcome(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    logged: int,
    found: Mapping[str, Arrived],
) -> Outcome:
    started, clock = datetime.now(timezone.utc), time.monotonic()
    passes, message = list[Pass](), None
    try:
        built.check(table, seen.built)
        if table.format == "snapshot":
            if logged > seen.batch or reading.has_new(table, seen.positions, found):
                newest = reading.reaches(table, found)
                passes.append(_extracts(spark, target, table, run_id, seen, newest))
            logged, found = 0, {}
        if logged > seen.batch:
            passes.append(apply_ahead(spark, target, table, run_id, seen, logged))
            seen = passes[-1].seen
        if reading.has_new(table, seen.positions, found):
            newest = reading.reaches(table, found)
            passes.append(apply_new(spark, target, table, run_id, seen, newest))
    except (PySparkException, LakehouseError, OSError) as failure:
        message = in_short(failure)
    seen = passes[-1].seen if passes else seen
    positions = dict(seen.positions) | (reading.reaches(table, found) if message is None else {})
    entry = Entry(
        run_id=run_id,
        layer="silver",
        table=table.table,
        batch=seen.batch,
        positions=positions,
        started_at=started,
        ended_at=datetime.now(timezone.utc),
        status="ok" if message is None else "failed",
        counts=_sum([each.counts for each in passes]),
        message=message,
        duration_ms=int((time.monotonic() - clock) * 1000),
    )
    return Outcome(entry, passes)


def _sum(parts: list[dict[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found


def apply_new(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
) -> Pass:
    """Decodes what bronze has gained up to the batches `newest` into the log, and applies it."""
    raw = reading.unread(spark, target, table, seen.positions, newest)
    learned = layout.learned(spark, target, table)
    built.confirm(spark, target, table, seen.built, learned, run_id)
    changes = decode(raw, table, learned)
    schema_drift.follow(spark, target, table, raw, changes, seen.built, run_id)
    log.append(spark, target, table, gate(changes, table), seen.batch + 1)
    rows = log.read(spark, target, table).where(F.col("_batch") <= seen.batch + 1)
    after = seen._replace(batch=seen.batch + 1, positions=dict(seen.positions) | dict(newest))
    return apply_part(spark, target, table, run_id, rows, seen, after)


def _extracts(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
) -> Pass:
    """Compares and applies extracts, which have passes of their own."""
    after, counts = apply_extracts(spark, target, table, run_id, seen, newest, _write)
    return Pass(after, counts, TableChanges([], []), False)


def apply_ahead(
    spark: SparkSession, target: Target, table: Table, run_id: str, seen: Seen, newest: int
) -> Pass:
    """Applies what the log holds up to `newest` beyond what the ledger says is applied.

    So a run that was killed is brought to its end. Effects that are there already do not change.
    """
    rows = log.read(spark, target, table).where(F.col("_batch") <= newest)
    done = dict(seen.positions) | log.positions(rows.where(F.col("_batch") > seen.batch))
    after = seen._replace(batch=newest, positions=done)
    return apply_part(spark, target, table, run_id, rows, seen, after)


def apply_part(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    rows: DataFrame,
    seen: Seen,
    after: Seen,
) -> Pass:
    """Applies the rows of the log above the batch of `seen`; `rows` are all up to that of `after`.

    Raises:
        AccountMismatch: the classes do not add up to the records.
    """
    lateness.reject(spark, target, table, seen.batch, seen.horizon)
    pending = rows.where(F.col("_batch") > seen.batch)
    summary = log.summarize(pending)
    placed = order.place(spark, target, table, rows, pending, seen, after.batch, summary)
    _write(spark, target, table, placed.batch, placed.refold)
    if summary.rejected or placed.refold:
        judged = rows if placed.refold else pending
        dead_letters.record(spark, target, table, judged, run_id, placed.new.epochs)
    if schema_drift.INCOMPATIBLE in summary.rejected:
        schema_drift.record_misfits(spark, target, table, pending, run_id)
    partial, heirs = seen.partial or summary.incomplete > 0, seen.heirs or summary.heirs > 0
    counts = account.classes(spark, target, table, placed, summary, rows, seen)
    after = after._replace(partial=partial, heirs=heirs, whole=placed.new)
    return Pass(after, counts, order.fresh(placed, seen.whole), placed.refold)


def _write(spark: SparkSession, target: Target, table: Table, batch: Batch, refold: bool) -> None:
    if not table.keys:
        apply_keyless(spark, target, table, batch, refold)
    elif table.stored_as_scd_type == 2:
        apply_history(spark, target, table, batch, refold)
    else:
        apply_current(spark, target, table, batch, refold)
