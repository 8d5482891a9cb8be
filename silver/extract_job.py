"""Snapshot tables, extract by extract: log, apply, count.

Each extract is one batch of the change log (see `silver.extract_log`), and its I, U and D go the
way of all changes.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import dead_letters, extract_days, extract_log, extract_state, layout, log
from silver.batch import Batch, Seen, keyed, stamped
from silver.contract import DELETE, UPSERT
from silver.extract_days import Days

Write = Callable[[SparkSession, Target, Table, Batch, bool], None]


def apply_extracts(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
    write: Write,
) -> tuple[Seen, dict[str, int]]:
    """Compares and applies every extract up to the ingest batch `newest`, in order of their dates.

    Returns:
        What the table has applied now, and the counts: `records`, of which `I`, `U`, `N`,
        `duplicate`, `dead_letter:<reason>` are the classes; `D` and `X` count keys, not records.

    Raises:
        TableFailed: a file of the next extract cannot be read.
    """
    feed = extract_days.feed_of(table)
    done, reach = seen.positions.get(feed, 0), newest.get(feed, 0)
    days = extract_state.settle(spark, target, table, extract_days.read(spark, target, table))
    seen, counts = _apply(spark, target, table, run_id, seen, days, write)
    while left := extract_days.pending(spark, target, table, days, done, reach):
        extract_days.refuse_unreadable(spark, target, table, left[0].day)
        extract_log.extend(spark, target, table, days, left[0], seen, run_id)
        days = extract_state.settle(spark, target, table, days)
        seen, found = _apply(spark, target, table, run_id, seen, days, write)
        counts = {name: counts.get(name, 0) + found.get(name, 0) for name in {**counts, **found}}
    return seen._replace(positions={**seen.positions, feed: reach}), counts


def _apply(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    days: Days,
    write: Write,
) -> tuple[Seen, dict[str, int]]:
    """Applies what the log holds beyond the batch of `seen`; all of it anew where the past changed.

    The past has changed when the table shows a change of that time or later: it may be gone.
    """
    newest = max((day.batch or 0 for day in days.values()), default=0)
    if newest <= seen.batch:
        return seen, {}
    rows = log.read(spark, target, table).where(F.col("_batch") <= newest)
    pending = rows.where(F.col("_batch") > seen.batch)
    kinds = pending.groupBy("_letter", "_operation", "_reason").agg(
        F.count(F.lit(1)).alias("records"), F.min("_sequence").alias("oldest")
    )
    found = [row.asDict() for row in kinds.collect()]
    oldest = min((row["oldest"] for row in found if row["_letter"]), default=None)
    refold = oldest is not None and _reaches_back(spark, target, table, oldest)
    if refold or any(row["_operation"] in (UPSERT, DELETE) for row in found):
        changes = keyed(stamped(rows if refold else pending, table, []))
        fields = layout.business(rows.schema)
        write(spark, target, table, Batch(newest, changes, fields, [], [], False, False), refold)
    if any(row["_reason"] for row in found):
        dead_letters.record(spark, target, table, pending, run_id)
    return seen._replace(batch=newest), _counts(found, days, seen.batch)


def _reaches_back(spark: SparkSession, target: Target, table: Table, oldest: str) -> bool:
    """Whether the table holds a change from this sequence on; answered from file statistics."""
    kept = f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table
    if not names.exists(spark, target, "silver", kept):
        return False
    rows = spark.table(names.name(target, "silver", kept))
    return not rows.where(F.col("_stamp") >= F.lit(oldest)).isEmpty()


def _counts(found: list[dict[str, object]], days: Days, applied: int) -> dict[str, int]:
    counts: dict[str, int] = {"records": 0}
    for row in found:
        reason, letter, records = row["_reason"], row["_letter"], int(str(row["records"]))
        kind = f"dead_letter:{reason}" if reason else str(letter or "duplicate")
        counts[kind] = counts.get(kind, 0) + records
        counts["records"] += 0 if letter == "D" else records
    new = [day.not_supplied or 0 for day in days.values() if (day.batch or 0) > applied]
    return counts | ({"X": sum(new)} if sum(new) else {})
