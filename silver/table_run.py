"""One run of one table: what the change log holds above what is applied is merged, or waits.

`run_table` is the only way in. Who calls it says which rows of the change log count: those that
`silver.changelog.extend` has just decoded, a consistency group's complete transactions, the files
of a snapshot date, dead letters that are good now, or all that waits.
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from silver import freshness, reconciliation
from silver.changelog import dead_letters, log, order
from silver.changelog.order import Placed
from silver.contract import waits_in_log
from silver.merge import pending_view
from silver.merge.write import write_batch
from silver.run import Run, SilverTable
from silver.state.summary import Summary, summarize
from silver.state.table_state import TableState


class LogPart(NamedTuple):
    """The part of a change log that a run applies.

    Attributes:
        rows: the log up to the newest batch of `after`; what is above the batch of `before` is new.
        before: what is known of the table without the new rows.
        after: what is known with them, as the change log tells; nothing of them is applied yet.
        may_wait: whether they may wait until a MERGE pays.
        recomputes: whether the table is made anew from all rows, whatever the new ones are.
    """

    rows: DataFrame
    before: TableState
    after: TableState
    may_wait: bool = False
    recomputes: bool = False


class TableResult(NamedTuple):
    """What a run did to a table: what is known of it now, and what became of the records."""

    state: TableState
    counts: dict[str, int]


def logged_part(
    table: SilverTable, before: TableState, after: TableState, may_wait: bool = False
) -> LogPart:
    """All that the change log holds up to the newest batch of `after`."""
    rows = log.read(table.spark, table.target, table.config)
    return LogPart(rows.where(F.col("_batch") <= after.logged), before, after, may_wait)


def run_table(run: Run, table: SilverTable, part: LogPart) -> TableResult:
    """Merges a part of the change log, or lets it wait and shows it to readers.

    What cannot be shown is merged at once, after what was shown before it, so that readers see one
    state after the other.

    Raises:
        AccountMismatch: the outcomes do not add up to the records.
        TruncateRefused: the source truncated the table and `on_truncate` is `fail`.
    """
    before = part.before
    summary = part.after.waits or summarize(order.new_rows(part.rows, before))
    part = part._replace(after=part.after.replace(waits=summary))
    placed = order.place(table.config, part.rows, before, part.after, summary, part.recomputes)
    if part.may_wait and not freshness.is_much(part.after):
        if pending_view.shows(table, placed, summary, before):
            return _let_wait(run, table, part, placed)
        if not waits_in_log(table.target, table.config) and part.after.whole == before.whole:
            return _let_wait(run, table, part, placed)
        if before.batch < before.shown < part.after.logged:
            return _merge_in_turn(run, table, part)
    return _merge(run, table, part, placed)


def _let_wait(run: Run, table: SilverTable, part: LogPart, placed: Placed) -> TableResult:
    """Keeps the dead letters of what waits, and shows the rest to readers where that can be."""
    before, state, summary = part.before, part.after, _summary(part)
    if before.waits is None or before.waits.rejected != summary.rejected:
        state = dead_letters.keep(run, table, placed, summary, state)
    pending = summary.records - sum(summary.rejected.values())
    state = state.replace(
        batch=before.batch, whole=before.whole, pending=pending, counted=summary.rejected
    )
    if waits_in_log(table.target, table.config):
        state = pending_view.show(table, placed, summary, state)
    counts = reconciliation.new_letters(summary, before.counted)
    counts["records"] = summary.records - before.known_records
    counts["pending"] = pending - before.pending
    return TableResult(state, {name: n for name, n in counts.items() if n})


def _summary(part: LogPart) -> Summary:
    """What the new rows hold; `run_table` has made sure that it is known."""
    return part.after.waits or Summary()


def _merge_in_turn(run: Run, table: SilverTable, part: LogPart) -> TableResult:
    """Merges what readers see already, and then the rest."""
    shown, before = part.before.shown, part.before
    rows = part.rows.where(F.col("_batch") <= shown)
    first = before.replace(logged=shown, waits=before.waits if shown == before.logged else None)
    done = run_table(run, table, LogPart(rows, before, first))
    rest = part.after.replace(waits=None)
    then = run_table(run, table, LogPart(part.rows, done.state, rest))
    return TableResult(then.state, sum_counts(done.counts, then.counts))


def _merge(run: Run, table: SilverTable, part: LogPart, placed: Placed) -> TableResult:
    """Writes the new rows into the table, and accounts for every record."""
    began, before, summary = datetime.now(timezone.utc), part.before, _summary(part)
    own = table.spark, table.target, table.config
    counts = write_batch(*own, placed.batch, placed.recomputes)
    if before.shown > before.batch or table.target.catalog:
        pending_view.hide(table)
    noted = dead_letters.keep(run, table, placed, summary, part.after)
    found = reconciliation.outcomes(table.name, summary, counts, before)
    if table.config.max_staleness is not None:
        found["bytes"] = size_of(table)
    state = noted.replace(
        batch=part.after.logged,
        partial=before.partial or summary.incomplete > 0,
        heirs=before.heirs or summary.heirs > 0,
        ties=before.ties or counts.ties > 0,
        whole=placed.new,
        waits=None,
        pending=0,
        counted={},
        waiting_since=None,
        shown=0,
        applied_at=int(began.timestamp() * 1_000_000),
        took=(datetime.now(timezone.utc) - began).total_seconds(),
        size=(before.size or 0) + found.get("inserted", 0),
        highest=None if placed.recomputes else before.with_merged(summary),
    )
    return TableResult(state, found)


def sum_counts(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The counts of two runs of a table together."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def size_of(table: SilverTable) -> int:
    """Bytes of the data files of the table that changes are merged into."""
    rows = table.spark.sql(f"DESCRIBE DETAIL {table.kept.name}").collect()
    return next(int(row["sizeInBytes"]) for row in rows)
