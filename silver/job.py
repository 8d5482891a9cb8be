"""Silver's job, table by table: decode, gate, sequence, apply, record."""

import time
from collections.abc import Callable
from datetime import datetime, timezone

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import ledger
from lakehouse.errors import LakehouseError
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Target
from silver import account, dead_letters, layout, log, order, reading
from silver.apply import apply_current
from silver.batch import Batch, Seen
from silver.decode import decode
from silver.expectations import gate
from silver.history import apply_history

Progress = Callable[[str], None]


def apply(
    spark: SparkSession, target: Target, tables: list[Table], run_id: str, progress: Progress
) -> list[Entry]:
    """Brings every table up to what bronze holds; one ledger entry each, and a failure stops no other."""
    done = applied(spark, target)
    entries = []
    for table in tables:
        progress(f"silver {table.table}")
        entries.append(_entry(spark, target, table, run_id, done.get(table.table, Seen())))
    ledger.append(spark, target, [e for e in entries if e.counts or e.status == "failed"])
    return entries


def applied(spark: SparkSession, target: Target) -> dict[str, Seen]:
    """What each table has applied, from the ledger."""
    runs = ledger.read(spark, target).where("layer = 'silver' AND status = 'ok'")
    found = runs.groupBy("table").agg(
        F.max("batch").alias("batch"),
        F.count_if(F.col("counts")["incomplete"] > 0).alias("partial"),
        F.count_if(F.col("counts")["heirs"] > 0).alias("heirs"),
    )
    return {
        row["table"]: Seen(int(row["batch"] or 0), bool(row["partial"]), bool(row["heirs"]))
        for row in found.collect()
    }


def _entry(spark: SparkSession, target: Target, table: Table, run_id: str, seen: Seen) -> Entry:
    started, clock = datetime.now(timezone.utc), time.monotonic()
    batch, counts, message = seen.batch, dict[str, int](), None
    try:
        batch, counts = apply_table(spark, target, table, run_id, seen)
    except (PySparkException, LakehouseError, OSError) as failure:
        message = str(failure)
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


def apply_table(
    spark: SparkSession, target: Target, table: Table, run_id: str, seen: Seen
) -> tuple[int, dict[str, int]]:
    """Decodes what is new and applies what is pending of one table.

    Returns:
        The newest batch applied, and what became of its records, by class; no classes when idle.
    """
    newest = extend_log(spark, target, table, seen.batch)
    rows = log.read(spark, target, table)
    if rows is None or newest <= seen.batch:
        return newest, {}
    pending = rows.where((F.col("_batch") > seen.batch) & (F.col("_batch") <= newest))
    summary = log.summarize(pending)
    placed = order.place(spark, target, table, rows, seen, newest, summary)
    _write(spark, target, table, placed.batch, placed.refold)
    rejected = log.reasons(pending) if summary.rejected else {}
    if rejected:
        dead_letters.record(spark, target, table, pending, run_id)
    order.remember(spark, target, table, placed)
    return newest, account.classes(spark, target, table, placed, summary, rejected)


def extend_log(spark: SparkSession, target: Target, table: Table, done: int) -> int:
    """Appends what bronze has gained to the change log; returns the newest batch of either."""
    decoded = max(log.newest_batch(log.read(spark, target, table)), done)
    newest = reading.newest_batch(spark, target, table)
    raw = reading.unread(spark, target, table, decoded) if newest > decoded else None
    if raw is None:
        return decoded
    learned = layout.learned(spark, target, table)
    changes = gate(decode(raw.where(F.col("_batch") <= newest), table, learned), table)
    log.append(spark, target, table, changes)
    return newest


def _write(
    spark: SparkSession, target: Target, table: Table, batch: Batch, refold: bool
) -> None:
    if table.stored_as_scd_type == 2:
        apply_history(spark, target, table, batch, refold)
    else:
        apply_current(spark, target, table, batch, refold)
