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
from silver.snapshot_source.comparison import add_digests, select_live_keys, select_newest_changes
from silver.snapshot_source.row_digests import DIGESTS, KEY_DIGEST, OPERATIONAL_DIGEST, VALUE_DIGEST
from silver.snapshot_source.snapshot_dates import Days, RowKind, compared_since, find_last_batch
from silver.snapshot_source.unread_lines import UnreadLines, find_unread_lines
from silver.state.table_state import SnapshotDay
from silver.storage import layout
from silver.storage.layout import DIGEST_COLUMNS
from silver.storage.row_columns import FEW, column, to_all

# From this share of changed keys on, the state is written anew instead of merged into.
MUCH = 0.2


class ComparedFiles(NamedTuple):
    """The snapshot rows that a batch of the log was made of, with their digests.

    `unique_keys`: no two rows have the same key. `all_valid`: every key has a valid row. `unread`
    are lines without a readable key: as long as there are some, nothing is deleted.
    """

    batch: int
    rows: DataFrame
    unique_keys: bool
    all_valid: bool
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
    return select_live_keys(earlier, table.config)


def update_dates(
    table: SilverTable,
    days: Mapping[date | None, SnapshotDay],
    kinds: Sequence[RowKind],
    compared: ComparedFiles | None,
) -> Mapping[date | None, SnapshotDay]:
    """Brings the digests and the list of dates up to the log; returns that list.

    Only the newest batch of the log may be missing in them.

    Args:
        table: the table.
        days: the dates of the table's state.
        kinds: what the log holds, at least above those dates' batches.
        compared: the rows of its newest batch, where this run has written it.
    """
    newest = find_last_batch(days.values())
    new = [kind for kind in kinds if kind.batch > newest]
    if not new:
        return days
    day = _build_day(days, new, str(table.config.feeds[0].mode))
    at = day.effective_date
    if at is None:
        return {**days, at: day}
    if any(kind.letter for kind in new):
        rows = log.read_log(table).where(F.col("_batch") > newest)
        _update_digests(table, rows, new, compared, anew=bool(compared_since(days, at)))
        day = structs.replace(day, not_supplied=_count_missing(table, rows), unread_lines=None)
        days = {**days, **_to_compare_anew(days, at)}
    if day.mode == "full" and any(kind.reason for kind in new):
        day = structs.replace(day, unread_lines=_count_unread(table, at, compared))
    return {**days, at: day}


def _build_day(days: Days, new: Sequence[RowKind], mode: str) -> SnapshotDay:
    """The entry of the date whose rows are the newest of the log."""
    sequence = max(kind.sequence or "" for kind in new)
    at = day_of_sequence(sequence) if sequence else None
    read = max(kind.feed_batch for kind in new)
    previous = days.get(at, SnapshotDay(at, mode, None, 0))
    return structs.replace(previous, mode=mode, batch=new[-1].batch, feed_batch=read)


def _count_missing(table: SilverTable, rows: DataFrame) -> int | None:
    """How many live keys are not among the log rows of a delta; None for a full snapshot."""
    if table.config.feeds[0].mode != "delta":
        return None
    keys = [column(key) for key in table.config.keys]
    supplied = add_digests(rows.select("_reason", *keys), table.config).select(KEY_DIGEST)
    return table.digests.read().join(supplied, KEY_DIGEST, "left_anti").count()


def _to_compare_anew(days: Days, day: date) -> dict[date | None, SnapshotDay]:
    """The later dates, as not compared yet."""
    later = [at for at in compared_since(days, day) if at > day]
    return {at: structs.replace(days[at], batch=None, feed_batch=0) for at in later}


def _count_unread(table: SilverTable, day: date, compared: ComparedFiles | None) -> int | None:
    if compared is not None:
        return compared.unread.lines or None
    of_day = log.read_log(table).where(F.col("_sequence") == F.lit(sequence_of_day(day)))
    return find_unread_lines(of_day, table.config).lines or None


def _ensure_digests(table: SilverTable, rows: DataFrame) -> bool:
    """Creates the table of the digests; whether it is new."""
    fields = layout.list_source_fields(rows.schema)
    keys = [field for field in fields if field.name in table.config.keys]
    return layout.ensure_table(table.digests, keys, DIGEST_COLUMNS)


def _update_digests(
    table: SilverTable,
    rows: DataFrame,
    new: Sequence[RowKind],
    compared: ComparedFiles | None,
    anew: bool,
) -> None:
    """Brings the digests up to `rows`, the newest batch of the log, or computes them `anew`."""
    config, created = table.config, _ensure_digests(table, rows)
    before = table.digests.read()
    changes = sum(kind.records for kind in new if kind.operation in (UPSERT, DELETE))
    if anew or (created and (compared is None or compared.batch > 1)):
        layout.load_rows(table.digests, select_live_keys(log.read_log(table), config), anew=True)
    elif compared is not None and (created or changes >= MUCH * before.count()):
        after = _build_digests_after(before, compared, config)
        layout.load_rows(table.digests, after, anew=True)
    else:
        source = to_all(select_newest_changes(rows, config), changes <= FEW)
        execute_with_rows(table.spark, _render_merge(table.digests.name, config.keys), source)


def _build_digests_after(before: DataFrame, compared: ComparedFiles, table: Table) -> DataFrame:
    """The digests after a date is compared; `before` are those before.

    A delta adds and replaces keys, and so does a full snapshot with lines without a readable key;
    other full ones replace everything. A supplied key without a valid row keeps its old digests.
    """
    supplied = _select_newest_rows(compared, table).select(*before.columns)
    not_replaced = before.join(supplied, KEY_DIGEST, "left_anti")
    if table.feeds[0].mode == "delta" or compared.unread.lines:
        return supplied.unionByName(not_replaced)
    if compared.all_valid:
        return supplied
    return supplied.unionByName(not_replaced.join(compared.rows, KEY_DIGEST, "left_semi"))


def _select_newest_rows(compared: ComparedFiles, table: Table) -> DataFrame:
    """Digests and key columns of each key's newest valid row."""
    valid = compared.rows.where(F.col("_reason").isNull() & F.col(KEY_DIGEST).isNotNull())
    if compared.unique_keys:
        return valid
    content = F.struct(VALUE_DIGEST, OPERATIONAL_DIGEST, *[column(key) for key in table.keys])
    newest = F.max_by(content, "_arrival").alias("_newest")
    return valid.groupBy(KEY_DIGEST).agg(newest).select(KEY_DIGEST, "_newest.*")


def _render_merge(name: str, keys: list[str]) -> str:
    """The MERGE INTO text; the source is the placeholder `{rows}`."""
    values = [digest for digest in DIGESTS if digest != KEY_DIGEST]
    return (
        f"MERGE INTO {name} t USING {{rows}} s ON t.{KEY_DIGEST} = s.{KEY_DIGEST}"
        " WHEN MATCHED AND s._gone THEN DELETE"
        f" WHEN MATCHED THEN {render_update(values)}"
        f" WHEN NOT MATCHED AND NOT s._gone THEN {render_insert([*DIGESTS, *keys])}"
    )
