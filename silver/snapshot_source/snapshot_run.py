"""Table runs of snapshot tables, date by date: compare, log, apply, count.

The files of a date are one batch of the change log (see `silver.snapshot_source.snapshot_log`), and
its letters I, U and D are applied like all changes.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from datetime import date

from msgspec.structs import replace
from pyspark.sql import functions as F

from lakehouse.run import ledger
from silver.changelog import dead_letters
from silver.changelog.batch import Batch
from silver.fold.order_key import make_order, order_literal
from silver.run import Run, SilverTable
from silver.snapshot_source import snapshot_state
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
)
from silver.snapshot_source.snapshot_log import append_snapshot_files
from silver.snapshot_source.snapshot_state import ComparedFiles
from silver.state import fingerprint
from silver.state.table_state import TableState
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
    applied = min(state.batch, find_last_batch(state.days))
    state, counted = _apply_log(run, table, state, read_row_kinds(table, applied), None)
    days = [replace(d, feed_batch=0) if d.effective_date in again else d for d in state.days]
    state = state.replace(days=days)
    requested = [PendingDate(day, reach, None) for day in sorted(again)]
    while pending := requested or list_pending(table, days_of(state), done, reach):
        requested = requested[1:]
        refuse_unreadable(table, pending[0].day)
        state, compared = append_snapshot_files(run, table, pending[0], state)
        state, new = _apply_log(run, table, state, read_row_kinds(table, state.batch), compared)
        if compared is not None and compared.unread.repaired:
            dead_letters.resolve_files(table, compared.unread.repaired, run.id)
        counted = sum_counts(counted, new)
    return TableResult(state.with_positions({feed: reach}), counted)


def _apply_log(
    run: Run,
    table: SilverTable,
    state: TableState,
    kinds: Sequence[RowKind],
    compared: ComparedFiles | None,
) -> tuple[TableState, dict[str, int]]:
    """Applies what the log holds above the batch of `state`; records its dates before.

    The table is recomputed where it holds changes of the same date or a later one: the comparison
    with the state before may differ now.
    """
    days = snapshot_state.update_dates(table, days_of(state), kinds, compared)
    newest = find_last_batch(days.values())
    after = state.replace(days=[*days.values()], logged=max(state.logged, newest))
    if after != state:
        ledger.append_entries(table.spark, table.target, [after.begun(run.id, table.name)])
        state = after
    if newest <= state.batch:
        return state, {}
    new = [kind for kind in kinds if state.batch < kind.batch <= newest]
    oldest = min((kind.sequence for kind in new if kind.letter and kind.sequence), default=None)
    anew = oldest is not None and _reaches_back(table, oldest)
    batch = Batch.of_log(table, state, state.replace(logged=newest, waits=None))
    done = run_table(run, dataclasses.replace(batch, anew=anew))
    counted = count_outcomes(new, days_of(state), state.batch)
    return done.state.replace(logged=max(state.logged, newest)), counted


def _reaches_back(table: SilverTable, oldest: str) -> bool:
    """Whether the table holds a change from this sequence on."""
    if not table.kept.exists:
        return False
    begins = F.expr(order_literal(make_order(oldest)))
    return not table.kept.read().where(F.col("_order") >= begins).isEmpty()
