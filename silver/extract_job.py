"""Snapshot tables, extract by extract: log, apply, count.

Each extract is one batch of the change log (see `silver.extract_log`), and its I, U and D go the
way of all changes.
"""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import dead_letters, extract_days, extract_log, extract_state, layout, log
from silver.batch import Batch, Seen, keyed, ordered
from silver.contract import DELETE, UPSERT
from silver.extract_days import Days
from silver.extract_kinds import Kind, counts, kinds
from silver.fold.order_key import make_order, order_literal

Write = Callable[[SparkSession, Target, Table, Batch, bool], object]


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
    days = extract_days.read(spark, target, table)
    settled = min(seen.batch, max((day.batch or 0 for day in days.values()), default=0))
    found = kinds(spark, target, table, settled)
    days = extract_state.settle(spark, target, table, days, found)
    seen, counted = _apply(spark, target, table, run_id, seen, days, found, write)
    while left := extract_days.pending(spark, target, table, days, done, reach):
        extract_days.refuse_unreadable(spark, target, table, left[0].day)
        came = extract_log.extend(spark, target, table, days, left[0], seen, run_id)
        found = kinds(spark, target, table, seen.batch)
        days = extract_state.settle(spark, target, table, days, found, came)
        seen, new = _apply(spark, target, table, run_id, seen, days, found, write)
        counted = {name: counted.get(name, 0) + new.get(name, 0) for name in {**counted, **new}}
    return seen._replace(positions={**seen.positions, feed: reach}), counted


def _apply(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    days: Days,
    found: Sequence[Kind],
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
    new = [kind for kind in found if seen.batch < kind.batch <= newest]
    oldest = min((kind.sequence for kind in new if kind.letter and kind.sequence), default=None)
    recomputes = oldest is not None and _reaches_back(spark, target, table, oldest)
    size = sum(kind.records for kind in new if kind.operation in (UPSERT, DELETE))
    if recomputes or size:
        changes = keyed(ordered(rows if recomputes else pending, table, []))
        changes = changes.withColumn("_new", F.lit(True))
        batch = Batch(newest, changes, layout.business(rows.schema), [], [], False, False)
        batch = batch._replace(size=None if recomputes else size)
        write(spark, target, table, batch, recomputes)
    if any(kind.reason for kind in new):
        dead_letters.record(spark, target, table, pending, run_id)
    return seen._replace(batch=newest), counts(new, days, seen.batch)


def _reaches_back(spark: SparkSession, target: Target, table: Table, oldest: str) -> bool:
    """Whether the table holds a change from this sequence on."""
    kept = f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table
    if not names.exists(spark, target, "silver", kept):
        return False
    rows = spark.table(names.name(target, "silver", kept))
    return not rows.where(F.col("_order") >= F.expr(order_literal(make_order(oldest)))).isEmpty()
