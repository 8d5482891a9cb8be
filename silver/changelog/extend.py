"""A table's change log brought up to bronze: what is new there is decoded, gated and added."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import SchemaChangeRefused
from lakehouse.run.memory import Arrived
from silver.changelog import bronze_rows, late_changes, log
from silver.changelog.decoded_batch import RawBatch, write_decoded, write_looked_through
from silver.changelog.source_restarts import follow_source
from silver.decode.spark import FIRST_RECORDS, fetch_first
from silver.run import Run, SilverTable
from silver.state.epochs import TableChanges
from silver.state.summary import ObservedRows
from silver.state.table_state import TableState


class WaitsForForm(Exception):
    """The new records are tombstones that cannot be decoded before the feed's first event.

    Attributes:
        records: how many records wait.
    """

    def __init__(self, records: int) -> None:
        super().__init__(f"{records} records wait for the first event of the feed")
        self.records = records


def extend_log(
    run: Run, table: SilverTable, state: TableState, logged: int, feeds: Mapping[str, Arrived]
) -> TableState:
    """Brings the change log up to bronze without applying anything.

    Args:
        run: the run.
        table: the table.
        state: the table's state.
        logged: the newest batch of the change log; a killed run left what is above that of `state`.
        feeds: what the feeds hold in bronze.

    Returns:
        The table's new state; its `logged` is the newest batch of the log.

    Raises:
        SchemaChangeRefused: the new records change the source's columns in a way that the table
            does not allow.
        WaitsForForm: the new records have to be decoded together with later ones.
    """
    if logged > state.logged:
        state = _adopt_unrecorded_batches(run, table, state, logged)
    newest = bronze_rows.find_newest_batches(table.config, feeds)
    if not bronze_rows.has_new(table.config, state.positions, feeds):
        return state.with_positions(newest)
    return _append_new(run, table, state, newest)


def _append_new(
    run: Run, table: SilverTable, state: TableState, newest: Mapping[str, int]
) -> TableState:
    """Adds what bronze has gained up to the batches `newest` to the log, as one batch."""
    number = state.logged + 1
    raw = bronze_rows.read_new_rows(table, state.positions, newest)

    def write(changes: DataFrame) -> ObservedRows:
        return log.append_batch(table, changes, number)

    def rewrite(changes: DataFrame) -> ObservedRows:
        return log.rewrite_batch(table, changes, number)

    first = None if table.name in run.memory.large else fetch_first(raw, table.config)
    batch = RawBatch(table, state, raw, first)
    if first is not None and batch.waits_for_form():
        raise WaitsForForm(first.rows.num_rows)
    try:
        _, written = write_decoded(batch, write, rewrite)
    except SchemaChangeRefused:
        run.noted[table.name] = batch.build_state_after(run.id)
        raise
    run.memory.note_size(table.name, written.facts.records > FIRST_RECORDS)
    marked = late_changes.reject_late_changes(table, state)
    after = batch.build_state_after(run.id).with_positions(newest).replace(logged=number)
    after = follow_source(run, table, after, written.facts.source_log)
    summary = None if marked else written.summary(table.config, _with_pending(after))
    return after.replace(logged=state.logged).with_logged(number, summary)


def _with_pending(state: TableState) -> TableChanges:
    """The table's full snapshots and truncates, with the snapshots of changes that wait."""
    if state.waits is None:
        return state.whole
    waiting = state.waits.snapshot_progress
    return state.whole._replace(snapshot_progress=[*state.whole.snapshot_progress, *waiting])


def _adopt_unrecorded_batches(
    run: Run, table: SilverTable, state: TableState, logged: int
) -> TableState:
    """The table's state with the batches that a killed run left in the log.

    The newest batch is written again where that run wrote it without some columns.
    """
    newest = log.read_log(table).where(F.col("_batch") == logged)
    if not newest.where("_mismatched").isEmpty():
        spans = newest.groupBy("_feed").agg(F.min("_feed_batch"), F.max("_feed_batch")).collect()
        parts = [bronze_rows.read_batches(table, *span) for span in spans]
        batch = RawBatch(table, state, reduce(DataFrame.unionByName, parts))

        def rewrite(changes: DataFrame) -> ObservedRows:
            return log.rewrite_batch(table, changes, logged)

        write_looked_through(batch, batch.load_columns(first=logged == 1), rewrite)
        state = batch.build_state_after(run.id)
    late_changes.reject_late_changes(table, state)
    left = log.read_log(table).where((F.col("_batch") > state.logged) & (F.col("_batch") <= logged))
    after = state.with_positions(log.find_feed_batches(left)).with_logged(logged, None)
    return follow_source(run, table, after, log.read_source_log(left))
