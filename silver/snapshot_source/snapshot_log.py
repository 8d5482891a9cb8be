"""Appends the snapshot files of one date to the change log: decodes, checks, compares, writes.

They are all files that a folder `PATH/YYYY-MM-DD/` holds when a run reads it, and are one batch of
the log. The batch replaces every log row of its date or later. Usually there are none; where files
arrive late or are added, the later dates that it replaced are compared again.
"""

from datetime import date
from typing import NamedTuple

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.errors import SchemaChangeRefused
from silver.changelog.decoded_batch import RawBatch, write_decoded
from silver.contract import GATED_COLUMNS, LOG_COLUMNS, NONE
from silver.decode.protocols.snapshot_files import sequence_of_day
from silver.run import Run, SilverTable
from silver.snapshot_source import snapshot_state
from silver.snapshot_source.comparison import (
    DUPLICATE,
    SnapshotFiles,
    add_digests,
    compare_rows,
    equals_newest,
    select_newest_rows,
)
from silver.snapshot_source.extract_columns import follow_columns
from silver.snapshot_source.row_digests import KEY_DIGEST
from silver.snapshot_source.snapshot_dates import (
    Days,
    PendingDate,
    days_of,
    effective_date,
    feed_of,
    find_read_batch,
    read_feed,
)
from silver.snapshot_source.snapshot_state import ComparedFiles
from silver.snapshot_source.unread_lines import UnreadLines, find_unread_lines
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.layout import DIGEST_COLUMNS, LETTER_COLUMN
from silver.storage.row_columns import column, hash_change, to_all

# So many keys, or whole records, can be sent to every task.
FEW_KEYS, FEW_RECORDS = 100_000, 1_000
STAGED = "_staged"
"""The suffix of the table with the decoded rows of a date, from which they are compared."""


class CountedRows(NamedTuple):
    """Counts of the staged rows; rows that are no dead letters are valid.

    `rows` and `valid` count those with a key, `unread` dead letters without a readable key.
    `arrival` is the `_arrival` of the last valid row; None without any.
    """

    keys: int
    valid_keys: int
    rows: int
    valid: int
    arrival: str | None
    unread: int

    @property
    def unique_keys(self) -> bool:
        """Whether every key has one row."""
        return self.rows == self.keys


def append_snapshot_files(
    run: Run, table: SilverTable, pending: PendingDate, state: TableState
) -> tuple[TableState, ComparedFiles | None]:
    """Adds the files of one date to the log as its next batch.

    Files that are compared replace what the log has from their date on.

    Returns:
        The table's new state, and the rows of the files, where they were compared.

    Raises:
        ConfigurationDrift: the configuration contradicts what the table was built with.
        SchemaChangeRefused: a change of the columns that the table does not allow.
    """
    batch = RawBatch(table, state, _read_rows(table, pending))
    try:
        if pending.day is not None:
            follow_columns(batch)
        staged = _stage_rows(batch)
    except SchemaChangeRefused:
        run.noted[table.name] = batch.build_state_after(run.id)
        raise
    compared = _log_rows(batch, staged, pending)
    return batch.build_state_after(run.id).replace(logged=state.logged + 1), compared


def _log_rows(batch: RawBatch, staged: DataFrame, pending: PendingDate) -> ComparedFiles | None:
    """Compares staged rows with those before the date, writes changes; None if not compared."""
    table, number, days = batch.table, batch.state.logged + 1, days_of(batch.state)
    config, counts = table.config, _count_rows(staged)
    if pending.day is None or not counts.valid_keys or _has_repeats_only(staged, days, pending.day):
        not_compared = staged.where(F.col("_feed_batch") > find_read_batch(days, pending.day))
        _write_log(table, _to_unchanged_rows(not_compared, config), number, None)
        return None
    is_full = config.feeds[0].mode == "full"
    unread = find_unread_lines(staged, config) if is_full and counts.unread else UnreadLines(0, [])
    sequence, feed = sequence_of_day(pending.day), feed_of(config)
    arrival, deletes = str(counts.arrival), is_full and not unread.lines
    files = SnapshotFiles(pending.day, sequence, arrival, feed, pending.newest, deletes)
    state = _read_state_before(table, days, pending.day, staged)
    if not is_full and counts.rows <= FEW_KEYS:
        state = state.join(F.broadcast(staged.select(KEY_DIGEST)), KEY_DIGEST, "left_semi")
    rows = compare_rows(staged, state, config, files, counts.unique_keys)
    repeated = counts.valid - counts.valid_keys
    if repeated > 0:
        rows = _add_raw_records(rows, batch.raw, repeated <= FEW_RECORDS)
    _write_log(table, rows, number, sequence)
    has_all = counts.valid_keys == counts.keys
    return ComparedFiles(number, staged, counts.unique_keys, has_all, unread)


def _read_rows(table: SilverTable, pending: PendingDate) -> DataFrame:
    day = F.lit(pending.day.isoformat() if pending.day else None).cast("date")
    rows = read_feed(table).where(F.col("_batch") <= pending.newest)
    if pending.batches is not None:
        rows = rows.where(F.col("_batch").isin(pending.batches))
    of_day = rows.where(effective_date(F.col("_file"), table.config).eqNullSafe(day))
    return of_day.withColumn("_feed", F.lit(feed_of(table.config)))


def _stage_rows(batch: RawBatch) -> DataFrame:
    """Writes decoded and gated rows with digests: the comparison reads only the digests."""
    staged, layer_columns = batch.table.part(STAGED), (*GATED_COLUMNS, *DIGEST_COLUMNS)

    def write(changes: DataFrame) -> _Staged:
        rows = _Staged(add_digests(changes, batch.table.config), Observation())
        layout.ensure_table(staged, layout.list_source_fields(changes.schema), layer_columns)
        layout.load_rows(staged, rows.observe_rows(), anew=True)
        return rows

    def rewrite(changes: DataFrame) -> _Staged:
        layout.drop_retyped(staged, layout.list_source_fields(changes.schema))
        return write(changes)

    _, rows = write_decoded(batch, write, rewrite)
    return staged.read().select(*[column(c) for c in rows.changes.columns])


class _Staged(NamedTuple):
    """Rows to be staged, and what is counted of them while they are written."""

    changes: DataFrame
    observed: Observation

    def observe_rows(self) -> DataFrame:
        return self.changes.observe(self.observed, F.count("_mismatched").alias("mismatched"))

    def count_mismatches(self) -> int:
        """How many records show columns or types that they were decoded without."""
        return int(self.observed.get["mismatched"])


def _has_repeats_only(staged: DataFrame, days: Days, day: date) -> bool:
    """Whether the rows that came since the date was compared equal the newest ones before.

    False as well while unreadable lines hold back the deletes, so that it is compared again.
    """
    read = find_read_batch(days, day)
    if not read or days[day].unread_lines:
        return False
    old = select_newest_rows(staged.where(F.col("_feed_batch") <= read))
    new = staged.where(F.col("_feed_batch") > read).join(old, KEY_DIGEST, "left")
    return new.where(F.col("_reason").isNotNull() | ~equals_newest()).isEmpty()


def _count_rows(staged: DataFrame) -> CountedRows:
    """Counts the staged rows by their digests."""
    valid, has_key = F.col("_reason").isNull(), F.col(KEY_DIGEST).isNotNull()
    by_key = (
        staged.where(has_key)
        .groupBy(KEY_DIGEST)
        .agg(F.count(F.lit(1)).alias("rows"), F.count_if(valid).alias("valid"))
    )
    counts = by_key.agg(
        F.count(F.lit(1)).alias("keys"),
        F.count_if(F.col("valid") > 0).alias("valid_keys"),
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.coalesce(F.sum("valid"), F.lit(0)).alias("valid"),
    )
    last = staged.agg(
        F.max(F.when(valid & has_key, F.col("_arrival"))).alias("arrival"),
        F.count_if(~has_key & ~valid).alias("unread"),
    )
    return CountedRows(*counts.crossJoin(last).collect()[0])


def _read_state_before(table: SilverTable, days: Days, day: date, staged: DataFrame) -> DataFrame:
    """The live keys before a date, with their digests; no rows before the first date."""
    before = snapshot_state.read_state_before(table, days, day)
    columns = [*[c.name for c in DIGEST_COLUMNS], *table.config.keys]
    return staged.limit(0).select(*map(column, columns)) if before is None else before


def _add_raw_records(rows: DataFrame, raw: DataFrame, few: bool) -> DataFrame:
    """Adds the raw record to dead letters that only the comparison found; `few` broadcasts them."""
    duplicates = rows.where(F.col("_reason") == DUPLICATE).select("_arrival")
    records = raw.select("_arrival", F.col("_raw").alias("__raw"))
    matching = records.join(duplicates, "_arrival", "left_semi")
    joined = rows.join(to_all(matching, few), "_arrival", "left")
    filled = joined.withColumn("_raw", F.coalesce("_raw", "__raw"))
    return filled.select(*[column(c) for c in rows.columns])


def _to_unchanged_rows(staged: DataFrame, table: Table) -> DataFrame:
    """Log rows of records that change nothing: repeats, dead letters, files without a date."""
    emptied = [
        column(c) if c in table.keys else F.lit(None).cast(staged.schema[c].dataType).alias(c)
        for c in staged.columns
        if not c.startswith("_")
    ]
    operation = F.when(F.col("_reason").isNull(), NONE).alias("_operation")
    layer_columns = [operation if c.name == "_operation" else F.col(c.name) for c in GATED_COLUMNS]
    letter = F.lit(None).cast("string").alias(LETTER_COLUMN.name)
    return staged.select(*emptied, *layer_columns, letter)


def _write_log(table: SilverTable, rows: DataFrame, number: int, since: str | None) -> None:
    """Writes batch `number` in one commit; with `since`, it replaces the log from there on."""
    fields = layout.list_source_fields(rows.schema)
    layout.ensure_table(table.log, fields, (*LOG_COLUMNS, LETTER_COLUMN))
    values = [field.name for field in fields if field.name not in table.config.keys]
    logged = rows.withColumns({"_digest": hash_change(values), "_batch": F.lit(number)})
    if since is None:
        layout.load_rows(table.log, logged, anew=False)
    else:
        logged.writeTo(table.log.name).overwrite(F.col("_sequence") >= F.lit(since))
