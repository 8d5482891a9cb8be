"""Silver's job, table by table: decode, gate, sequence, apply, record."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import ledger
from lakehouse.errors import LakehouseError, in_short
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Target
from silver import account, dead_letters, layout, log, order, reading, snapshots
from silver.apply import apply_current
from silver.batch import Batch, Seen
from silver.decode import decode
from silver.expectations import gate
from silver.history import apply_history
from silver.keyless import apply_keyless
from silver.snapshots import TableChanges

Progress = Callable[[str], None]

AT_ONCE = 3


def apply(
    spark: SparkSession, target: Target, tables: list[Table], run_id: str, progress: Progress
) -> list[Entry]:
    """Brings every table up to what bronze holds.

    One ledger entry each, and a failure stops no other.

    Tables are independent of each other: a few are worked on at the same time, so that the planning
    of one fills the time in which another one's tasks run.
    """
    seen = applied(spark, target)
    newest = reading.newest_batches(spark, target, tables)

    def work(table: Table) -> Entry:
        progress(f"silver {table.table}")
        known = seen.get(table.table, Seen())
        return _entry(spark, target, table, run_id, known, reading.newest_of(table, newest))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        entries = list(pool.map(work, tables))
    ledger.append(spark, target, [e for e in entries if e.counts or e.status == "failed"])
    return entries


def applied(spark: SparkSession, target: Target) -> dict[str, Seen]:
    """What each table has applied, from the ledger and the table-wide changes."""
    whole = snapshots.read(spark, target)
    runs = ledger.read(spark, target).where("layer = 'silver' AND status = 'ok'")
    found = runs.groupBy("table").agg(
        F.max("batch").alias("batch"),
        F.count_if(F.col("counts")["incomplete"] > 0).alias("partial"),
        F.count_if(F.col("counts")["heirs"] > 0).alias("heirs"),
    )
    rows = {row["table"]: row for row in found.collect()}
    none = TableChanges([], [])
    return {
        table: Seen(
            int(rows[table]["batch"] or 0) if table in rows else 0,
            table in rows and bool(rows[table]["partial"]),
            table in rows and bool(rows[table]["heirs"]),
            whole.get(table, none),
        )
        for table in {*rows, *whole}
    }


def _entry(
    spark: SparkSession, target: Target, table: Table, run_id: str, seen: Seen, newest: int
) -> Entry:
    started, clock = datetime.now(timezone.utc), time.monotonic()
    batch, counts, message = seen.batch, dict[str, int](), None
    try:
        while batch < newest:
            seen, found = apply_table(spark, target, table, run_id, seen, newest)
            batch, counts = seen.batch, _sum(counts, found)
    except (PySparkException, LakehouseError, OSError) as failure:
        message = in_short(failure)
    return Entry(
        run_id=run_id,
        layer="silver",
        table=table.table,
        batch=batch,
        started_at=started,
        ended_at=datetime.now(timezone.utc),
        status="ok" if message is None else "failed",
        counts=counts,
        message=message,
        duration_ms=int((time.monotonic() - clock) * 1000),
    )


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def apply_table(
    spark: SparkSession, target: Target, table: Table, run_id: str, seen: Seen, arrived: int
) -> tuple[Seen, dict[str, int]]:
    """Decodes what is new and applies what is pending of one table, up to batch `arrived`.

    Returns:
        What the table has applied now, and what became of the batch's records, by class.
    """
    newest = extend_log(spark, target, table, seen.batch, arrived)
    rows = log.read(spark, target, table)
    if rows is None:
        return seen._replace(batch=newest), {}
    pending = rows.where((F.col("_batch") > seen.batch) & (F.col("_batch") <= newest))
    summary = log.summarize(pending)
    if not summary.records:
        return seen._replace(batch=newest), {}
    placed = order.place(spark, target, table, rows, seen, newest, summary)
    _write(spark, target, table, placed.batch, placed.refold)
    rejected = log.reasons(pending) if summary.rejected else {}
    if rejected:
        dead_letters.record(spark, target, table, pending, run_id)
    order.remember(spark, target, table, placed, seen.whole)
    partial, heirs = seen.partial or summary.incomplete > 0, seen.heirs or summary.heirs > 0
    counts = account.classes(spark, target, table, placed, summary, rejected)
    return Seen(newest, partial, heirs, placed.new), counts


def extend_log(spark: SparkSession, target: Target, table: Table, done: int, arrived: int) -> int:
    """Appends what bronze has gained up to batch `arrived` to the change log.

    A log that is ahead of what was applied, after a kill, is applied first: returns its newest
    batch.
    """
    held = log.newest_batch(log.read(spark, target, table))
    if held > done:
        return held
    raw = reading.unread(spark, target, table, done)
    if raw is not None:
        learned = layout.learned(spark, target, table)
        changes = decode(raw.where(F.col("_batch") <= arrived), table, learned)
        log.append(spark, target, table, gate(changes, table))
    return arrived


def _write(spark: SparkSession, target: Target, table: Table, batch: Batch, refold: bool) -> None:
    if not table.keys:
        apply_keyless(spark, target, table, batch, refold)
    elif table.stored_as_scd_type == 2:
        apply_history(spark, target, table, batch, refold)
    else:
        apply_current(spark, target, table, batch, refold)
