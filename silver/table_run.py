"""One table run: changes in the log that are not applied yet are merged, or stay pending.

The caller of `run_table` chooses which rows of the change log make the batch: those that
`silver.changelog.extend` has just decoded, a consistency group's complete transactions, the files
of a snapshot date, dead letters that can be applied now, or all pending changes.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import functions as F

from lakehouse.errors import TruncateRefused
from lakehouse.storage.delta_log import read_table_log
from silver import freshness, reconciliation
from silver.changelog import dead_letters
from silver.changelog.batch import Batch, Reach
from silver.contract import waits_in_log
from silver.fold.spark import Counts
from silver.merge import pending_view
from silver.merge.current import write_current
from silver.merge.history import write_history
from silver.merge.keyless import write_keyless
from silver.run import Run, SilverTable
from silver.state.table_state import TableState


class TableResult(NamedTuple):
    """What a table run did: the table's new state, and its records counted by outcome."""

    state: TableState
    counts: dict[str, int]


def run_table(run: Run, batch: Batch) -> TableResult:
    """Merges a batch, or leaves it pending and shows it to readers by a view.

    A batch that the view cannot show is merged at once, after the changes that the view shows
    already, so that readers never see an older state again.

    Raises:
        AccountMismatch: the outcomes do not add up to the records.
        TruncateRefused: the source truncated the table and `on_truncate` is `fail`.
    """
    table, before = batch.table, batch.before
    if batch.summary.truncates and table.config.on_truncate == "fail":
        raise TruncateRefused(table.name)
    if not batch.may_wait or freshness.is_much(batch.logged):
        return _merge_batch(run, batch)
    unseen = not waits_in_log(table.target, table.config)
    if pending_view.can_show(batch) or (unseen and batch.after.whole == before.whole):
        return _let_wait(run, batch)
    if before.batch < before.shown < batch.number:
        return _merge_in_turn(run, batch)
    return _merge_batch(run, batch)


def _let_wait(run: Run, batch: Batch) -> TableResult:
    """Keeps the dead letters of pending changes, and has a view show the others if it can."""
    before, state, summary = batch.before, batch.logged, batch.summary
    if before.waits is None or before.waits.rejected != summary.rejected:
        state = dead_letters.keep_dead_letters(run, batch, state)
    pending = summary.records - sum(summary.rejected.values())
    state = state.replace(
        batch=before.batch, whole=before.whole, pending=pending, counted=summary.rejected
    )
    if waits_in_log(batch.table.target, batch.table.config):
        state = pending_view.show_pending(batch, state)
    counts = reconciliation.new_letters(summary, before.counted)
    counts["records"] = summary.records - before.known_records
    counts["pending"] = pending - before.pending
    return TableResult(state, {name: n for name, n in counts.items() if n})


def _merge_in_turn(run: Run, batch: Batch) -> TableResult:
    """Merges the changes that the view shows already, and then the others."""
    shown, before = batch.before.shown, batch.before
    seen = before.replace(logged=shown, waits=before.waits if shown == before.logged else None)
    first = Batch(batch.table, batch.rows.where(F.col("_batch") <= shown), before, seen)
    done = run_table(run, first)
    rest = batch.after.replace(waits=None)
    then = run_table(run, Batch(batch.table, batch.rows, done.state, rest))
    return TableResult(then.state, sum_counts(done.counts, then.counts))


def _merge_batch(run: Run, batch: Batch) -> TableResult:
    """Writes the new rows into the table, and accounts for every record."""
    began = datetime.now(timezone.utc)
    table, before, summary = batch.table, batch.before, batch.summary
    counts = write_batch(batch)
    if before.shown > before.batch or table.target.catalog:
        pending_view.hide_pending(table)
    recorded = dead_letters.keep_dead_letters(run, batch, batch.after)
    if batch.cutoff_is_new or before.applied_at is None:
        recorded = recorded.with_replaced()
    outcomes = reconciliation.count_outcomes(table.name, summary, counts, before)
    outcomes |= _count_snapshots(batch)
    if table.config.max_staleness is not None:
        outcomes["bytes"] = size_of(table)
    state = recorded.replace(
        batch=batch.number,
        partial=before.partial or summary.incomplete > 0,
        key_changes=before.key_changes or summary.key_changes > 0,
        ties=before.ties or counts.ties > 0,
        whole=batch.table_changes,
        waits=None,
        pending=0,
        counted={},
        waiting_since=None,
        shown=0,
        applied_at=int(began.timestamp() * 1_000_000),
        took=(datetime.now(timezone.utc) - began).total_seconds(),
        size=(before.size or 0) + outcomes.get("inserted", 0),
        highest=None if batch.reach is Reach.LOG else before.find_highest_after(summary),
    )
    return TableResult(state, outcomes)


def _count_snapshots(batch: Batch) -> dict[str, int]:
    """The note of how many full snapshots have ended that took the place of older rows."""
    ended = batch.table_changes.ended - batch.before.whole.ended
    return {"snapshots": ended} if batch.before.batch and ended > 0 else {}


def write_batch(batch: Batch) -> Counts:
    """Folds a batch into its table, whichever kind of table that is."""
    if not batch.table.config.keys:
        return write_keyless(batch)
    has_history = batch.table.config.stored_as_scd_type == 2
    return write_history(batch) if has_history else write_current(batch)


def sum_counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The counts of two runs of a table together."""
    total = Counter(one)
    total.update(other)
    return dict(total)


def size_of(table: SilverTable) -> int:
    """Bytes of the data files of the table that changes are merged into."""
    logged = read_table_log(table.target, "silver", table.kept.table)
    if logged is not None:
        return logged.bytes
    rows = table.spark.sql(f"DESCRIBE DETAIL {table.kept.name}").collect()
    return next(int(row["sizeInBytes"]) for row in rows)
