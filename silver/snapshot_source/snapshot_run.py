"""Snapshot tables, snapshot file by snapshot file: log, apply, count.

Each extract is one batch of the change log (see `silver.snapshot_source.snapshot_log`), and its I,
U and D go the way of all changes.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from pyspark.sql import functions as F

from silver.changelog import dead_letters, log
from silver.contract import DELETE, UPSERT
from silver.fold.order_key import make_order, order_literal
from silver.merge.write import write_batch
from silver.run import Run, SilverTable
from silver.snapshot_source import snapshot_dates, snapshot_log, snapshot_state
from silver.snapshot_source.row_kinds import Kind, counts, kinds
from silver.snapshot_source.snapshot_dates import Days, Pending
from silver.state import fingerprint
from silver.state.batch import Batch, TableState, keyed, ordered
from silver.state.snapshots import TableChanges
from silver.storage import layout
from silver.table_result import Pass


def apply_snapshot_files(
    run: Run,
    table: SilverTable,
    state: TableState,
    newest: Mapping[str, int],
    again: Collection[date] = (),
) -> Pass:
    """Compares and applies every extract up to the ingest batch `newest`, in order of their dates.

    Before them those of the dates `again`, which have been compared, are compared anew.

    The counts of the result have `records`, of which `I`, `U`, `N`, `duplicate` and
    `dead_letter:<reason>` are the outcomes; `D` and `X` count keys, not records.

    Raises:
        TableFailed: a file of the next extract cannot be read.
    """
    own, config = (table.spark, table.target, table.config), table.config
    fingerprint.check_types(config, layout.learned(*own))
    feed = snapshot_dates.feed_of(config)
    done, reach = state.positions.get(feed, 0), newest.get(feed, 0)
    days = snapshot_dates.read(*own)
    settled = min(state.batch, max((day.batch or 0 for day in days.values()), default=0))
    found = kinds(*own, settled)
    days = snapshot_state.settle(*own, days, found)
    state, counted = _apply(run, table, state, days, found)
    days |= {day: days[day]._replace(feed_batch=0) for day in again}
    asked = [Pending(day, reach, None) for day in sorted(again)]
    while left := asked or snapshot_dates.pending(*own, days, done, reach):
        asked = asked[1:]
        snapshot_dates.refuse_unreadable(*own, left[0].day)
        came = snapshot_log.append_extract(run, table, days, left[0], state)
        found = kinds(*own, state.batch)
        days = snapshot_state.settle(*own, days, found, came)
        state, new = _apply(run, table, state, days, found)
        if came is not None and came.unread.repaired:
            dead_letters.resolve_files(*own, came.unread.repaired, run.id)
        counted = {name: counted.get(name, 0) + new.get(name, 0) for name in {**counted, **new}}
    after = state._replace(positions={**state.positions, feed: reach})
    return Pass(after, counted, TableChanges([], []), False)


def _apply(
    run: Run, table: SilverTable, state: TableState, days: Days, found: Sequence[Kind]
) -> tuple[TableState, dict[str, int]]:
    """Applies what the log holds beyond the batch of `state`.

    The table is recomputed where it shows a change of the same time or a later one: the comparison
    with the state before may be another now.
    """
    own = table.spark, table.target, table.config
    newest = max((day.batch or 0 for day in days.values()), default=0)
    if newest <= state.batch:
        return state, {}
    rows = log.read(*own).where(F.col("_batch") <= newest)
    pending = rows.where(F.col("_batch") > state.batch)
    new = [kind for kind in found if state.batch < kind.batch <= newest]
    oldest = min((kind.sequence for kind in new if kind.letter and kind.sequence), default=None)
    recomputes = oldest is not None and _reaches_back(table, oldest)
    size = sum(kind.records for kind in new if kind.operation in (UPSERT, DELETE))
    if recomputes or size:
        changes = keyed(ordered(rows if recomputes else pending, table.config, []))
        changes = changes.withColumn("_new", F.lit(True))
        batch = Batch(newest, changes, layout.business(rows.schema), [], [], False, False)
        write_batch(*own, batch._replace(size=None if recomputes else size), recomputes)
    if any(kind.reason for kind in new):
        dead_letters.record(*own, pending, run.id)
    return state._replace(batch=newest), counts(new, days, state.batch)


def _reaches_back(table: SilverTable, oldest: str) -> bool:
    """Whether the table holds a change from this sequence on."""
    kept = f"{table.name}_history" if table.config.stored_as_scd_type == 2 else table.name
    if not table.lake.exists("silver", kept):
        return False
    rows = table.spark.table(table.lake.name("silver", kept))
    return not rows.where(F.col("_order") >= F.expr(order_literal(make_order(oldest)))).isEmpty()
