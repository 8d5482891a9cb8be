"""One incremental run of one table: what is new goes into the change log, and then into the table.

`apply_new` is the main path. It decodes what bronze has gained, appends it to the change log (one
write, whose metrics are the summary of the batch), puts it in order, folds it with the stored rows
of its keys, and merges what comes out (one write, whose metrics are the outcomes).
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.run.memory import Arrived
from silver import freshness, reconciliation
from silver.changelog import bronze_rows, dead_letters, late_changes, log, order
from silver.changelog.extend import append_new, finish_batch
from silver.changelog.order import Placed
from silver.changelog.source_restarts import follow_source
from silver.contract import waits_in_log
from silver.fold.spark import Counts
from silver.merge import pending, pending_view
from silver.merge.pending import Staged
from silver.merge.write import write_batch
from silver.run import Run, SilverTable
from silver.state.batch import TableState
from silver.state.snapshots import TableChanges
from silver.state.summary import Summary, summarize
from silver.table_result import Pass


class Upstream(NamedTuple):
    """What the feeds hold in bronze, and the newest batch of the table's change log."""

    found: Mapping[str, Arrived]
    logged: int


class LogPart(NamedTuple):
    """A part of a change log that is to be applied.

    Attributes:
        rows: the log up to the batch of `after`; what lies above the batch of `before` is new.
        before: what the table has applied.
        after: what it will have applied.
        summary: what the new rows hold, where that is known.
        is_due: whether they must be applied now.
    """

    rows: DataFrame
    before: TableState
    after: TableState
    summary: Summary | None = None
    is_due: bool = True


def apply_new(run: Run, table: SilverTable, state: TableState, newest: Mapping[str, int]) -> Pass:
    """Decodes what bronze has gained up to the batches `newest` into the log, and applies it."""
    after, summary = append_new(run, table, state, newest, state.batch)
    return apply_part(run, table, LogPart(logged_rows(table, after.batch), state, after, summary))


def apply_left(run: Run, table: SilverTable, state: TableState, newest: int) -> Pass:
    """Applies what the log holds up to `newest` beyond what the ledger says is applied.

    So a run that was killed is brought to its end. Effects that are there already do not change.
    """
    finish_batch(run, table, state, newest)
    late_changes.reject(table.spark, table.target, table.config, state.batch, state.horizon)
    rows = logged_rows(table, newest)
    return apply_part(run, table, LogPart(rows, state, _logged(run, table, state, newest)))


def extend_log(
    run: Run, table: SilverTable, state: TableState, upstream: Upstream
) -> tuple[TableState, Summary | None]:
    """Brings a table's log up to bronze without applying it.

    Returns:
        What the log holds then, and the summary of what it holds above the batch of `state` where
        one write told all of it.
    """
    newest, applied, waits = (
        bronze_rows.reaches(table.config, upstream.found),
        state.batch,
        state.waits,
    )
    is_applied = upstream.logged <= applied
    if not is_applied and waits is None:
        finish_batch(run, table, state, upstream.logged)
        late_changes.reject(table.spark, table.target, table.config, applied, state.horizon)
        state = _logged(run, table, state, upstream.logged)
    elif waits is not None:
        state = follow_source(run, table, state, waits.source_log)
    state = state._replace(batch=max(upstream.logged, applied))
    if not bronze_rows.has_new(table.config, state.positions, upstream.found):
        return state._replace(positions=dict(state.positions) | newest), waits
    after, summary = append_new(run, table, state, newest, applied)
    if summary is not None and waits is not None:
        return after, waits.joined(summary)
    return after, summary if is_applied else None


def apply_or_wait(
    run: Run, table: SilverTable, state: TableState, after: TableState, summary: Summary | None
) -> Pass | None:
    """Applies what the log holds above the batch of `state`, or keeps it for readers to merge.

    None where nothing is new and pending changes may go on waiting. `summary` is what the log holds
    above that batch, where it is known.
    """
    if after.batch == state.batch:
        return None
    is_due = freshness.is_due(table.config, state, datetime.now(timezone.utc))
    if not is_due and pending.until(table.spark, table.target, table.config) == after.batch:
        return None
    rows = logged_rows(table, after.batch)
    return apply_part(run, table, LogPart(rows, state, after, summary, is_due))


def apply_part(run: Run, table: SilverTable, part: LogPart) -> Pass:
    """Applies a part of the change log.

    What is not due, and not too much, only becomes visible to readers (see `silver.merge.pending`).

    Raises:
        AccountMismatch: the outcomes do not add up to the records.
    """
    own, state, after = (table.spark, table.target, table.config), part.before, part.after
    new = order.new_rows(part.rows, state)
    summary = part.summary or summarize(new)
    placed = order.place(table.config, part.rows, state, after, summary)
    lags, staged = table.config.max_staleness is not None, None
    if lags and not waits_in_log(table.target, table.config):
        staged = pending.stage(*own, placed, state.batch, summary.came)
    waits = staged is not None and not part.is_due and freshness.may_wait(summary.records)
    counts = None if waits else _merge(table, placed, staged)
    judged = part.rows if placed.recomputes else new
    dead_letters.keep(run, table, placed, summary, judged)
    if counts is None:
        came = summary.records - state.pending
        noted = {"records": came, "pending": came}
        return Pass(state, noted, TableChanges([], []), False, after.batch)
    found = reconciliation.outcomes(table.name, summary, counts, state.pending)
    found |= {"bytes": pending.size(*own)} if lags else {}
    after = after._replace(
        partial=state.partial or summary.incomplete > 0,
        heirs=state.heirs or summary.heirs > 0,
        ties=state.ties or counts.ties > 0,
        whole=placed.new,
        pending=0,
        waits=None,
    )
    return Pass(after, found, order.fresh(placed, state.whole), placed.recomputes)


def logged_rows(table: SilverTable, newest: int) -> DataFrame:
    """The change log up to the batch `newest`."""
    rows = log.read(table.spark, table.target, table.config)
    return rows.where(F.col("_batch") <= newest)


def _merge(table: SilverTable, placed: Placed, staged: Staged | None) -> Counts:
    """Writes a batch into the table, from the rows that are kept of it where there are any.

    Pending rows of an earlier batch are cleared before the table is written, so that a reader never
    sees old pending rows over newer data.
    """
    own = table.spark, table.target, table.config
    if staged is not None:
        pending.write(*own, placed.batch, staged.rows)
        pending.clear(*own, placed.batch)
        return staged.counts
    pending.clear(*own, placed.batch)
    counts = write_batch(*own, placed.batch, placed.recomputes)
    pending_view.hide(table.target, table.config)
    return counts


def _logged(run: Run, table: SilverTable, state: TableState, newest: int) -> TableState:
    """What a table has seen when its log, up to `newest`, is all applied."""
    rows = logged_rows(table, newest).where(F.col("_batch") > state.batch)
    done = dict(state.positions) | log.positions(rows)
    after = state._replace(batch=newest, positions=done)
    return follow_source(run, table, after, log.source_log(rows))
