"""A table's change log brought up to bronze: what is new there is decoded, gated and added."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from silver.changelog import bronze_rows, late_changes, log
from silver.changelog.decoded_batch import RawBatch, write_decoded, write_looked_through
from silver.changelog.source_restarts import follow_source
from silver.decode.spark import FIRST_RECORDS, fetch_first
from silver.run import Run, SilverTable
from silver.state.batch import TableState
from silver.state.summary import Summary, Watched


class WaitsForForm(Exception):
    """The new records have tombstones that mean nothing before the feed's first event has come.

    Attributes:
        records: how many records wait.
    """

    def __init__(self, records: int) -> None:
        super().__init__(f"{records} records wait for the first event of the feed")
        self.records = records


def append_new(
    run: Run, table: SilverTable, state: TableState, newest: Mapping[str, int], applied: int
) -> tuple[TableState, Summary | None]:
    """Adds what bronze has gained up to the batches `newest` to the log, as one batch.

    `applied` is the newest batch of the log that is applied. The run keeps the batch's columns.

    Returns:
        What the log holds then, and the summary of the batch where its write told it.

    Raises:
        SchemaChangeRefused: the batch changes the source's columns in a way that the table fails.
        WaitsForForm: it is to be taken in together with later records.
    """
    own, number = (table.spark, table.target, table.config), state.batch + 1
    raw = bronze_rows.unread(*own, state.positions, newest)

    def write(changes: DataFrame) -> Watched:
        return log.write(*own, changes, number, state.whole.epochs)

    def rewrite(changes: DataFrame) -> Watched:
        return log.rewrite(*own, changes, number, state.whole.epochs)

    first = None if table.name in run.memory.large else fetch_first(raw, table.config)
    batch = RawBatch(*own, run.id, state, raw, first)
    if first is not None and batch.waits_for_form():
        raise WaitsForForm(first.rows.num_rows)
    columns, written = write_decoded(batch, write, rewrite)
    run.memory.shown[table.name] = columns
    summary = written.summary()
    if written.records() <= FIRST_RECORDS:
        run.memory.large.discard(table.name)
    else:
        run.memory.large.add(table.name)
    if late_changes.reject(*own, state.batch, state.horizon, applied):
        summary = None
    after = state._replace(batch=number, positions=dict(state.positions) | dict(newest))
    return follow_source(run, table, after, written.source_log()), summary


def finish_batch(run: Run, table: SilverTable, state: TableState, newest: int) -> None:
    """Writes the newest batch of the log anew where a killed run left it without some columns.

    Raises:
        SchemaChangeRefused: as `append_new`.
    """
    own = table.spark, table.target, table.config
    rows = log.read(*own).where(F.col("_batch") == newest)
    if rows.where("_unlike").isEmpty():
        return
    spans = rows.groupBy("_feed").agg(F.min("_feed_batch"), F.max("_feed_batch")).collect()
    parts = [bronze_rows.between(*own, *span) for span in spans]
    batch = RawBatch(*own, run.id, state, reduce(DataFrame.unionByName, parts))

    def rewrite(changes: DataFrame) -> Watched:
        return log.rewrite(*own, changes, newest, state.whole.epochs)

    write_looked_through(batch, batch.known(first=newest == 1), rewrite)
