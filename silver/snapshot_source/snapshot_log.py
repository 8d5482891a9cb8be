"""Appends the snapshot files of one date to the change log: decodes, checks, compares, writes.

A date's files are all that its folder `PATH/YYYY-MM-DD/` holds when a run reads it. They become one
batch of the log, which replaces all log rows of that date and of later ones. Usually there are
none; where files arrive late or are added there are, and the later dates are compared again.

Files of no date, and files that only repeat rows of a compared date, change nothing: their batch
replaces no row.

Rows are decoded, joined with the live rows and written in one pass. What all rows of a date show
together, such as that deletes must wait, is corrected in the log afterwards, and only then does the
table's state name the batch. A batch that the state does not name is that of a killed run, and is
made anew.
"""

from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from typing import NamedTuple

from msgspec import structs
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.errors import SchemaChangeRefused
from lakehouse.storage.statements import execute_with_rows
from lakehouse.storage.writing import replace_rows
from silver.changelog import log
from silver.changelog.decoded_batch import RawBatch, write_decoded
from silver.contract import LOG_COLUMNS
from silver.decode.facts import FACTS
from silver.decode.protocols.snapshot_files import sequence_of_day
from silver.run import Run, SilverTable
from silver.snapshot_source.comparison import (
    DUPLICATE,
    SnapshotFiles,
    are_same,
    compare_rows,
    join_live,
    to_unchanged_rows,
)
from silver.snapshot_source.extract_columns import follow_columns
from silver.snapshot_source.live_rows import read_live_rows
from silver.snapshot_source.snapshot_dates import (
    Days,
    PendingDate,
    RowKind,
    days_of,
    feed_of,
    find_read_batch,
    read_row_kinds,
    read_rows,
    reopen_dates,
)
from silver.snapshot_source.unread_lines import UnreadLines, find_unread_lines
from silver.state.table_state import SnapshotDay, TableState
from silver.storage import layout
from silver.storage.layout import LETTER_COLUMN
from silver.storage.row_columns import column, has_key, hash_change, of_keys
from silver.storage.stages import add_plan_barrier

FEW_ROWS = 100_000
"""A delta of up to so many rows is decoded twice: first for its keys, as only their live rows are
compared."""
_SUPPLIED = ("I", "U", "N")
"""The letters of rows that stand in the files; D is that of keys that the files lack."""


class AppendedDate(NamedTuple):
    """The table's state with a date that the log holds now, and the rows of the date's batch.

    `repaired` are the broken files that later ones repair, as starts of `_arrival`s.
    """

    state: TableState
    kinds: list[RowKind]
    repaired: list[str]


def append_snapshot_files(
    run: Run, table: SilverTable, pending: PendingDate, state: TableState
) -> AppendedDate:
    """Adds the files of one date to the log as its next batch.

    Files that are compared replace what the log has from their date on.

    Raises:
        ConfigurationDrift: the configuration contradicts what the table was built with.
        SchemaChangeRefused: a change of the columns that the table does not allow.
    """
    batch = RawBatch(table, state, read_rows(table, pending))
    days, day, live = days_of(state), pending.day, None
    try:
        if day is None or _brings_repeats_only(batch, days, day):
            # What the log has of the date stays; the new rows are added as they came.
            batch.raw = batch.raw.where(F.col("_batch") > find_read_batch(days, day))
            unchanged = partial(to_unchanged_rows, table=table.config)
            _write_batch(batch, f"_batch = {state.logged + 1}", unchanged)
        else:
            follow_columns(batch)
            live = read_live_rows(table, state, day)
            compare = partial(_compare_rows, live=live, table=table, pending=pending)
            _write_batch(batch, f"_sequence >= '{sequence_of_day(day)}'", compare)
            days = reopen_dates(days, day + timedelta(days=1))
    except SchemaChangeRefused:
        run.noted[table.name] = batch.build_state_after(run.id)
        raise
    kinds, unread = _correct_batch(batch, day)
    entry = _describe_date(batch, days, pending, kinds, unread, live)
    after = batch.build_state_after(run.id)
    noted = after.replace(logged=state.logged + 1, days=[*{**days, day: entry}.values()])
    return AppendedDate(noted, kinds, unread.repaired)


def _brings_repeats_only(batch: RawBatch, days: Days, day: date) -> bool:
    """Whether the rows that came since the date was compared equal those that counted then.

    False as well while unreadable lines hold back the deletes, so that it is compared again.
    """
    read, table = find_read_batch(days, day), batch.table
    if not read or days[day].unread_lines:
        return False
    new = RawBatch(table, batch.state, batch.raw.where(F.col("_batch") > read))
    columns = new.load_columns()
    if columns.announced is None:
        return False
    rows = add_plan_barrier(new.decode_and_gate(new.with_members(columns)))
    live = read_live_rows(table, batch.state, day + timedelta(days=1))
    counted = F.col("_letter").isin(*_SUPPLIED) & (F.col("_sequence") == sequence_of_day(day))
    keys = log.read_log(table).where(counted).select(*map(column, table.config.keys))
    shown = None if live is None else of_keys(live, keys, table.config)
    joined = join_live(rows, shown, table.config, "left")
    values = [f for f in layout.list_source_fields(rows.schema) if f.name not in table.config.keys]
    repeats = F.col("_reason").isNull() & F.col("_mismatched").isNull() & are_same(values)
    return joined.where(~repeats | F.col("__is_live").isNull()).isEmpty()


def _compare_rows(
    changes: DataFrame, live: DataFrame | None, table: SilverTable, pending: PendingDate
) -> DataFrame:
    """Decoded rows as rows of the log; of a small delta only its own keys are compared."""
    config, day = table.config, pending.day or date.min
    is_full = config.feeds[0].mode == "full"
    files = SnapshotFiles(day, feed_of(config), pending.newest, is_full)
    if is_full or live is None:
        return compare_rows(changes, live, config, files)
    rows = add_plan_barrier(changes)
    if pending.records is not None and pending.records <= FEW_ROWS:
        keys = F.broadcast(rows.select(*map(column, config.keys)))
        live = of_keys(live, keys, config)
    return compare_rows(rows, live, config, files)


class _WrittenRows(NamedTuple):
    """What Spark observes of the rows of a batch while they are written."""

    seen: Observation

    def count_mismatches(self) -> int:
        """How many records show columns or types that they were decoded without."""
        return int(self.seen.get["mismatched"])


def _write_batch(
    batch: RawBatch, condition: str, to_log_rows: Callable[[DataFrame], DataFrame]
) -> None:
    """Decodes a batch and writes it in one commit, in place of the log rows of a condition."""
    table, number = batch.table, batch.state.logged + 1

    def write(changes: DataFrame) -> _WrittenRows:
        seen, rows = Observation(), to_log_rows(changes.drop(FACTS))
        fields = layout.list_source_fields(rows.schema)
        layout.ensure_table(table.log, fields, (*LOG_COLUMNS, LETTER_COLUMN))
        values = [field.name for field in fields if field.name not in table.config.keys]
        digest = hash_change(rows.schema, values)
        logged = rows.withColumns({"_digest": digest, "_batch": F.lit(number)})
        observed = logged.observe(seen, F.count("_mismatched").alias("mismatched"))
        replace_rows(table.lake, "silver", table.log.table, observed, condition)
        return _WrittenRows(seen)

    def rewrite(changes: DataFrame) -> _WrittenRows:
        if table.log.read().where(F.col("_batch") != number).isEmpty():
            layout.drop_retyped(table.log, layout.list_source_fields(changes.schema))
        return write(changes)

    write_decoded(batch, write, rewrite)


def _correct_batch(batch: RawBatch, day: date | None) -> tuple[list[RowKind], UnreadLines]:
    """Takes back deletes that must wait, and gives the dead letters of duplicates their records.

    Deletes wait for unreadable lines of a full snapshot, and where no row of it is valid.

    Returns:
        What the batch holds, and the unreadable lines of the date.
    """
    table, number, unread = batch.table, batch.state.logged + 1, UnreadLines(0, [])
    kinds = read_row_kinds(table, number - 1)
    reasons, letters = {kind.reason for kind in kinds}, {kind.letter for kind in kinds}
    if DUPLICATE in reasons:
        _add_raw_records(batch, number)
    if day is not None and reasons != {None} and table.config.feeds[0].mode == "full":
        of_day = log.read_log(table).where(F.col("_sequence") == sequence_of_day(day))
        unread = find_unread_lines(of_day.where("NOT _letter <=> 'D'"), table.config)
    if "D" in letters and (unread.lines or not letters & {*_SUPPLIED}):
        condition = f"_batch = {number} AND _letter = 'D'"
        table.spark.sql(f"DELETE FROM {table.log.name} WHERE {condition}")
        kinds = [kind for kind in kinds if kind.letter != "D"]
    return kinds, unread


def _add_raw_records(batch: RawBatch, number: int) -> None:
    """Adds the raw records to the dead letters that only the comparison found."""
    text = (
        f"MERGE INTO {batch.table.log.name} t USING {{rows}} s ON t._arrival = s._arrival"
        f" AND t._batch = {number} AND t._reason = '{DUPLICATE}'"
        " WHEN MATCHED THEN UPDATE SET t._raw = s._raw"
    )
    records = batch.raw.select("_arrival", F.col("_raw").cast("string").alias("_raw"))
    execute_with_rows(batch.table.spark, text, records)


def _describe_date(
    batch: RawBatch,
    days: Days,
    pending: PendingDate,
    kinds: list[RowKind],
    unread: UnreadLines,
    live: DataFrame | None,
) -> SnapshotDay:
    """The state's entry of a date whose rows the newest batch of the log has."""
    mode = str(batch.table.config.feeds[0].mode)
    entry = structs.replace(
        days.get(pending.day, SnapshotDay(pending.day, mode, None, 0)),
        mode=mode,
        batch=batch.state.logged + 1,
        feed_batch=max((kind.feed_batch for kind in kinds), default=pending.newest),
    )
    if any(kind.letter for kind in kinds):
        lacking = None if mode == "full" else _count_missing(batch, live)
        entry = structs.replace(entry, not_supplied=lacking, unread_lines=None)
    if any(kind.reason for kind in kinds) and mode == "full" and pending.day is not None:
        entry = structs.replace(entry, unread_lines=unread.lines or None)
    return entry


def _count_missing(batch: RawBatch, live: DataFrame | None) -> int:
    """How many live keys are not among the rows of a delta, dead letters included."""
    if live is None:
        return 0
    table, keys = batch.table.config, [*map(column, batch.table.config.keys)]
    supplied = log.read_log(batch.table).where(F.col("_batch") == batch.state.logged + 1)
    named = supplied.where(F.col("_reason").isNull() | has_key(table)).select(*keys)
    return of_keys(live.select(*keys), named, table, "left_anti").count()
