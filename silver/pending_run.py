"""A run of a table whose pending changes readers see in its change log; merged when it pays."""

from collections.abc import Iterator
from datetime import datetime, timezone

from lakehouse.spark.local_settings import SMALL
from silver import freshness
from silver.changelog import dead_letters, order
from silver.merge import pending, pending_view
from silver.run import Run, SilverTable
from silver.state.batch import TableState
from silver.state.snapshots import TableChanges
from silver.state.summary import Summary, summarize
from silver.table_result import Pass
from silver.table_run import LogPart, Upstream, apply_part, extend_log, logged_rows

# Of a small table, a MERGE of so many changes takes longer to compile than to interpret.
_LITTLE = 50_000


def passes(run: Run, table: SilverTable, state: TableState, upstream: Upstream) -> Iterator[Pass]:
    """Brings the log up to bronze and shows what it gained; applies it all when due, or very much.

    What cannot be shown is applied at once, after what was shown before it: a reader sees one state
    after the other.
    """
    alone, now = table.name in run.memory.alone, datetime.now(timezone.utc)
    is_due = freshness.is_due(table.config, state, now, run.memory.among, alone)
    brief = table.with_session(run.memory.session_for(table.spark, table.name))
    after, summary = extend_log(run, brief, state, upstream)
    shown = max(pending_view.until(table.target, table.config), state.batch)
    if after.batch == state.batch or (shown >= after.batch and not is_due):
        return
    if is_due and run.memory.brief is not None and _is_little(table, summary):
        table = table.with_session(run.memory.brief)
    own = table.spark, table.target, table.config
    rows = logged_rows(table, after.batch)
    new = order.new_rows(rows, state)
    summary = summary or summarize(new)
    placed = order.place(table.config, rows, state, after, summary)
    if not pending_view.shows(*own, placed, summary, state):
        after = after._replace(highest=None)
        if shown > state.batch:
            part = LogPart(logged_rows(table, shown), state, after._replace(batch=shown))
            first = apply_part(run, table, part)
            yield first
            state, summary = first.state, None
        yield apply_part(run, table, LogPart(rows, state, after, summary))
        return
    known = pending_view.show(*own, placed, summary, state)
    if is_due or not freshness.may_wait(summary.records):
        highest = after._replace(highest=known.highest)
        yield apply_part(run, table, LogPart(rows, state, highest, known.waits))
        return
    if state.waits is None or state.waits.rejected != summary.rejected:
        dead_letters.keep(run, table, placed, summary, new)
    came = summary.records - state.pending
    counts = {"records": came, "pending": came}
    yield Pass(known, counts, TableChanges([], []), False, after.batch)


def _is_little(table: SilverTable, summary: Summary | None) -> bool:
    """Whether few changes, as far as is known, are to be applied to a small table."""
    if summary is None or summary.records > _LITTLE:
        return False
    held = table.lake.exists("silver", table.name)
    return not held or pending.size(table.spark, table.target, table.config) < SMALL
