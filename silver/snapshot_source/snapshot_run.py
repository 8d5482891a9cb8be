"""Table runs of snapshot tables, date by date: compare, log, apply, count.

The files of a date are one batch of the change log (see `silver.snapshot_source.snapshot_log`), and
its letters I, U and D are applied like all changes. The table's state names a batch before it is
applied.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import date

from msgspec.structs import replace
from pyspark.sql import functions as F

from lakehouse.run import ledger
from silver.changelog import dead_letters, log
from silver.changelog.batch import Batch
from silver.contract import DELETE, NONE, UPSERT
from silver.decode.protocols.snapshot_files import day_of_sequence
from silver.fold.order_key import make_order
from silver.run import Run, SilverTable
from silver.snapshot_source.live_rows import reaches_sequence
from silver.snapshot_source.snapshot_dates import (
    PendingDate,
    RowKind,
    count_outcomes,
    days_of,
    feed_of,
    find_last_batch,
    list_pending,
    read_row_kinds,
    refuse_unreadable,
    reopen_dates,
)
from silver.snapshot_source.snapshot_log import append_snapshot_files
from silver.state import fingerprint
from silver.state.summary import Summary
from silver.state.table_state import TableState
from silver.storage import layout
from silver.table_run import TableResult, run_table, sum_counts


def apply_snapshot_files(
    run: Run,
    table: SilverTable,
    state: TableState,
    newest: Mapping[str, int],
    again: Collection[date] = (),
) -> TableResult:
    """Compares and applies all snapshot files up to the ingest batch `newest`, in order of dates.

    Before that, the dates `again`, which were compared before, are compared again.

    The counts of the result have `records`, of which `I`, `U`, `N`, `duplicate` and
    `dead_letter:<reason>` are the outcomes; `D` and `X` count keys, not records.

    Raises:
        TableFailed: a file of the next date cannot be read.
    """
    fingerprint.check_types(table.config, table.log.business)
    feed = feed_of(table.config)
    done, reach = state.positions.get(feed, 0), newest.get(feed, 0)
    state, counted = _complete_killed_run(run, table, state)
    days = [replace(d, feed_batch=0) if d.effective_date in again else d for d in state.days]
    state = state.replace(days=days)
    requested = [PendingDate(day, reach, None, None) for day in sorted(again)]
    while pending := requested or list_pending(table, days_of(state), done, reach):
        requested = requested[1:]
        refuse_unreadable(table, pending[0].day)
        appended = append_snapshot_files(run, table, pending[0], state)
        _note_state(run, table, appended.state)
        state, new = _apply_log(run, table, appended.state, appended.kinds)
        if appended.repaired:
            dead_letters.resolve_files(table, appended.repaired, run.id)
        counted = sum_counts(counted, new)
    return TableResult(state.with_positions({feed: reach}), counted)


def _note_state(run: Run, table: SilverTable, state: TableState) -> None:
    ledger.append_entries(table.lake, [state.begun(run.id, table.name)])


def _complete_killed_run(
    run: Run, table: SilverTable, state: TableState
) -> tuple[TableState, dict[str, int]]:
    """Applies what a killed run has logged and noted; removes from the log what it has not noted.

    The dates of what is removed, and those after them, whose rows that may have replaced, are to be
    compared again. The state says so before the rows go.
    """
    last = find_last_batch(state.days)
    kinds = read_row_kinds(table, min(state.batch, last))
    unnoted = [kind for kind in kinds if kind.batch > last]
    if unnoted:
        sequences = [kind.sequence for kind in unnoted if kind.sequence]
        days = days_of(state)
        if sequences:
            days = reopen_dates(days, day_of_sequence(min(sequences)))
        state = state.replace(days=[*days.values()])
        _note_state(run, table, state)
        table.spark.sql(f"DELETE FROM {table.log.name} WHERE _batch > {last}")
        if table.log.read().isEmpty():
            layout.drop_source_columns(table.log)
    return _apply_log(run, table, state, [kind for kind in kinds if kind.batch <= last])


def _apply_log(
    run: Run, table: SilverTable, state: TableState, kinds: Sequence[RowKind]
) -> tuple[TableState, dict[str, int]]:
    """Applies what the log holds above the batch of `state`, and counts it.

    The table is recomputed where it holds changes of the same date or a later one, which are no
    longer in the log: what comes after is compared with another state.
    """
    newest = find_last_batch(state.days)
    if newest <= state.batch:
        return state, {}
    new = [kind for kind in kinds if kind.batch > state.batch]
    after = state.replace(logged=max(state.logged, newest), waits=_summarize(new))
    batch = Batch.of_log(table, state, after)
    done = run_table(run, dataclasses.replace(batch, anew=_replaces_applied(table, state, new)))
    return done.state, count_outcomes(new, days_of(state))


def _summarize(kinds: Sequence[RowKind]) -> Summary:
    """What rows of the log are, by their kinds."""
    changes = [kind for kind in kinds if kind.operation in (UPSERT, DELETE)]
    orders = [make_order(kind.sequence) for kind in changes if kind.sequence]
    rejected: dict[str, int] = {}
    for kind in kinds:
        if kind.reason:
            rejected[kind.reason] = rejected.get(kind.reason, 0) + kind.records
    return Summary(
        records=sum(kind.records for kind in kinds),
        changes=sum(kind.records for kind in changes),
        without_change=sum(kind.records for kind in kinds if kind.operation == NONE),
        rejected=rejected,
        oldest=min((kind.sequence for kind in changes if kind.sequence), default=None),
        first_order=min(orders, default=None),
        last_order=max(orders, default=None),
    )


def _replaces_applied(table: SilverTable, state: TableState, kinds: Sequence[RowKind]) -> bool:
    """Whether rows of the log took the place of rows that are applied already."""
    oldest = min((kind.sequence for kind in kinds if kind.sequence), default=None)
    if oldest is None or not reaches_sequence(table, state, oldest):
        return False
    applied = (F.col("_batch") <= state.batch) & (F.col("_sequence") >= oldest)
    return log.read_log(table).where(applied).isEmpty()
