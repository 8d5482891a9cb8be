"""`silver.T_digests`, the last state of a snapshot table: a digest of each live key and its values.

It follows from the change log alone, so the next run completes one that was killed between the two
writes. A run that is not killed uses the digests of the rows that it has just compared, and where
much has changed it writes the state anew, which is faster than a MERGE.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import structs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage.statements import execute_with_rows, render_insert, render_update
from silver.changelog import log
from silver.contract import DELETE, UPSERT
from silver.decode.protocols.snapshot_files import day_of_sequence, sequence_of_day
from silver.run import SilverTable
from silver.snapshot_source.comparison import add_digests, last_state, select_newest_changes
from silver.snapshot_source.row_digests import DIGESTS, KEY_DIGEST, REST_DIGEST, VALUE_DIGEST
from silver.snapshot_source.snapshot_dates import Days, RowKind, compared_since
from silver.snapshot_source.unread_lines import UnreadLines, find_unread_lines
from silver.state.table_state import SnapshotDay
from silver.storage import layout
from silver.storage.layout import DIGEST_COLUMNS
from silver.storage.row_columns import FEW, column, to_all

# From this share of changed keys on, the state is written anew instead of merged into.
MUCH = 0.2


class ComparedFiles(NamedTuple):
    """The snapshot rows that a batch of the log was made of, with their digests.

    `once`: no two rows have the same key. `whole`: every key has a sound row. `unread` are lines
    without a readable key: as long as there are some, nothing is deleted.
    """

    batch: int
    rows: DataFrame
    once: bool
    whole: bool
    unread: UnreadLines


def read_state_before(table: SilverTable, days: Days, day: date) -> DataFrame | None:
    """The state that the files of a date are compared with; None when there is none yet.

    It is the last one, or, where later dates have been compared, the one before this date.
    """
    if not table.digests.exists:
        return None
    if not compared_since(days, day):
        return table.digests.read()
    earlier = log.read_log(table).where(F.col("_sequence") < sequence_of_day(day))
    return last_state(earlier, table.config)


def settle_dates(
    table: SilverTable,
    days: Mapping[date | None, SnapshotDay],
    kinds: Sequence[RowKind],
    came: ComparedFiles | None = None,
) -> Mapping[date | None, SnapshotDay]:
    """Brings the digests and the list of dates up to the log; returns that list.

    Only the newest batch of the log may be missing in them.

    Args:
        table: the table.
        days: the dates of the table's state.
        kinds: what the log holds, at least above those dates' batches.
        came: the rows of its newest batch, where this run has written it.
    """
    settled = max((day.batch or 0 for day in days.values()), default=0)
    new = [kind for kind in kinds if kind.batch > settled]
    if not new:
        return days
    sequence = max((kind.sequence for kind in new if kind.sequence), default=None)
    at = None if sequence is None else day_of_sequence(sequence)
    mode, read = str(table.config.feeds[0].mode), max(kind.feed_batch for kind in new)
    previous = days.get(at, SnapshotDay(at, mode, None, 0))
    day = structs.replace(previous, mode=mode, batch=new[-1].batch, feed_batch=read)
    if at is not None and any(kind.letter for kind in new):
        not_supplied = _bring_up(table, days, at, new, came)
        day = structs.replace(day, not_supplied=not_supplied, unread_lines=None)
        days = {**days, **_to_compare_anew(days, at)}
    if at is not None and mode == "full" and any(kind.reason for kind in new):
        day = structs.replace(day, unread_lines=_count_unread(table, at, came))
    return {**days, at: day}


def _bring_up(
    table: SilverTable, days: Days, day: date, new: Sequence[RowKind], came: ComparedFiles | None
) -> int | None:
    """Brings the digests up to the newest batch; returns how many live keys a delta lacks."""
    settled = max((each.batch or 0 for each in days.values()), default=0)
    rows = log.read_log(table).where(F.col("_batch") > settled)
    changes = sum(kind.records for kind in new if kind.operation in (UPSERT, DELETE))
    if compared_since(days, day):
        _ensure_digests(table, rows)
        _recompute_digests(table)
    else:
        _refresh_digests(table, rows, came, changes)
    if table.config.feeds[0].mode != "delta":
        return None
    carried = add_digests(
        rows.select("_reason", *[column(key) for key in table.config.keys]), table.config
    )
    live = table.digests.read().join(carried.select(KEY_DIGEST), KEY_DIGEST, "left_anti")
    return live.count()


def _to_compare_anew(days: Days, day: date) -> dict[date | None, SnapshotDay]:
    """The later dates, as not compared yet."""
    later = [at for at in compared_since(days, day) if at > day]
    return {at: structs.replace(days[at], batch=None, feed_batch=0) for at in later}


def _count_unread(table: SilverTable, day: date, came: ComparedFiles | None) -> int | None:
    if came is not None:
        return came.unread.lines or None
    of_day = log.read_log(table).where(F.col("_sequence") == F.lit(sequence_of_day(day)))
    return find_unread_lines(of_day, table.config).lines or None


def _ensure_digests(table: SilverTable, rows: DataFrame) -> bool:
    """Creates the table of the digests; whether it is new."""
    fields = layout.list_source_fields(rows.schema)
    keys = [field for field in fields if field.name in table.config.keys]
    return layout.ensure_table(table.digests, keys, DIGEST_COLUMNS)


def _recompute_digests(table: SilverTable) -> None:
    """Writes the digests anew from the whole log."""
    layout.load_rows(table.digests, last_state(log.read_log(table), table.config), anew=True)


def _refresh_digests(
    table: SilverTable, rows: DataFrame, came: ComparedFiles | None, changes: int
) -> None:
    """Brings the digests up to `rows`, the newest batch of the log."""
    created, config = _ensure_digests(table, rows), table.config
    held = table.digests.read()
    if created and (came is None or came.batch > 1):
        _recompute_digests(table)
    elif came is not None and (created or changes >= MUCH * held.count()):
        layout.load_rows(table.digests, build_state_after(held, came, config), anew=True)
    else:
        source = to_all(select_newest_changes(rows, config), changes <= FEW)
        execute_with_rows(table.spark, merge_sql(table.digests.name, config.keys), source)


def build_state_after(held: DataFrame, came: ComparedFiles, table: Table) -> DataFrame:
    """The state after the rows `came`; `held` is the one before.

    A delta adds and replaces keys, and so does a full snapshot with lines without a readable key;
    other full ones replace everything. A supplied key without a sound row keeps its old digests.
    """
    supplied = _select_valid_rows(came, table).select(*held.columns)
    if table.feeds[0].mode == "delta" or came.unread.lines:
        return supplied.unionByName(held.join(supplied, KEY_DIGEST, "left_anti"))
    if came.whole:
        return supplied
    kept = held.join(came.rows, KEY_DIGEST, "left_semi").join(supplied, KEY_DIGEST, "left_anti")
    return supplied.unionByName(kept)


def _select_valid_rows(came: ComparedFiles, table: Table) -> DataFrame:
    """Digests and key columns of the row that counts, for each key with a sound row."""
    sound = came.rows.where(F.col("_reason").isNull() & F.col(KEY_DIGEST).isNotNull())
    if came.once:
        return sound
    said = F.struct(VALUE_DIGEST, REST_DIGEST, *[column(key) for key in table.keys])
    last = sound.groupBy(KEY_DIGEST).agg(F.max_by(said, "_arrival").alias("_said"))
    return last.select(KEY_DIGEST, "_said.*")


def merge_sql(name: str, keys: list[str]) -> str:
    """The MERGE INTO text; the source is the placeholder `{rows}`."""
    values = [digest for digest in DIGESTS if digest != KEY_DIGEST]
    return (
        f"MERGE INTO {name} t USING {{rows}} s ON t.{KEY_DIGEST} = s.{KEY_DIGEST}"
        " WHEN MATCHED AND s._gone THEN DELETE"
        f" WHEN MATCHED THEN {render_update(values)}"
        f" WHEN NOT MATCHED AND NOT s._gone THEN {render_insert([*DIGESTS, *keys])}"
    )
