"""`silver.T_digests`, the last state of a snapshot table: a digest of each live key and its values.

It follows from the change log alone, so a run that was killed between the two is brought to its end
by the next one. A run that goes on takes the digests of the rows that it has just compared, and
where much has changed writes the state anew: a MERGE would look for every key before it did.
"""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.writing import replace
from silver.changelog import log
from silver.contract import DELETE, UPSERT
from silver.decode.protocols.snapshot_files import day_of_sequence, sequence_of_day
from silver.snapshot_source import snapshot_dates
from silver.snapshot_source.comparison import digested, last_state, newest
from silver.snapshot_source.row_digests import DIGESTS, KEY_DIGEST, REST_DIGEST, VALUE_DIGEST
from silver.snapshot_source.row_kinds import Kind
from silver.snapshot_source.snapshot_dates import Days
from silver.snapshot_source.unread_lines import UnreadLines, unread_lines
from silver.state.batch import FEW, to_all
from silver.state.table_state import SnapshotDay
from silver.storage import layout
from silver.storage.row_columns import column
from silver.storage.side_columns import DIGEST_COLUMNS

# Share of the live keys from which on the state is written anew, and not merged into.
MUCH = 0.2


class Came(NamedTuple):
    """The rows of the extract that a batch of the log was made of, with their digests.

    `once` says that no two have one key, `whole` that of every key some row can be believed.
    `unread` are lines that tell no key: as long as there are some, nothing is deleted.
    """

    batch: int
    rows: DataFrame
    once: bool
    whole: bool
    unread: UnreadLines


def before(
    spark: SparkSession, target: Target, table: Table, days: Days, day: date
) -> DataFrame | None:
    """The state that an extract is compared with; None when there is none yet.

    That is the last one, or, where a later extract has been compared, that before its date.
    """
    if not names.exists(spark, target, "silver", _table(table)):
        return None
    if not snapshot_dates.compared_since(days, day):
        return spark.table(names.name(target, "silver", _table(table)))
    earlier = log.read(spark, target, table).where(F.col("_sequence") < sequence_of_day(day))
    return last_state(earlier, table)


def settle(
    spark: SparkSession,
    target: Target,
    table: Table,
    days: dict[date | None, SnapshotDay],
    kinds: Sequence[Kind],
    came: Came | None = None,
) -> dict[date | None, SnapshotDay]:
    """Brings the digests and the list of extracts up to the log; returns that list.

    The newest batch of the log may be ahead of them, and no other.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        days: the extracts known so far.
        kinds: what the log holds, at least beyond those.
        came: the extract that its newest batch was made of, where the run knows.
    """
    settled = max((day.batch or 0 for day in days.values()), default=0)
    new = [kind for kind in kinds if kind.batch > settled]
    if not new:
        return days
    sequence, batch = max((k.sequence for k in new if k.sequence), default=None), new[-1].batch
    day = None if sequence is None else day_of_sequence(sequence)
    mode = str(table.feeds[0].mode)
    left, unread = None, None
    if any(kind.letter for kind in new) and day is not None:
        anew = bool(snapshot_dates.compared_since(days, day))
        changes = sum(kind.records for kind in new if kind.operation in (UPSERT, DELETE))
        rows = log.read(spark, target, table).where(F.col("_batch") > settled)
        if anew:
            _recompute(spark, target, table, rows)
        else:
            _refresh(spark, target, table, rows, came, changes)
        left = _not_supplied(spark, target, table, rows) if mode == "delta" else None
        later = [at for at in snapshot_dates.compared_since(days, day) if at > day]
        days = {**days, **{at: structs.replace(days[at], batch=None, feed_batch=0) for at in later}}
    elif day in days:
        left, unread = days[day].not_supplied, days[day].unread_lines
    if mode == "full" and day is not None and any(kind.reason for kind in new):
        of_day = log.read(spark, target, table).where(F.col("_sequence") == F.lit(sequence))
        unread = (unread_lines(of_day, table) if came is None else came.unread).lines or None
    read = max(kind.feed_batch for kind in new)
    return {**days, day: SnapshotDay(day, mode, batch, read, left, unread)}


def _ensure(spark: SparkSession, target: Target, table: Table, rows: DataFrame) -> tuple[str, bool]:
    """The table of the digests by its SQL name, and whether it is new."""
    keys = [field for field in layout.business(rows.schema) if field.name in table.keys]
    return layout.ensure(spark, target, _table(table), keys, DIGEST_COLUMNS)


def _recompute(spark: SparkSession, target: Target, table: Table, rows: DataFrame) -> None:
    """Digests from the whole log."""
    _ensure(spark, target, table, rows)
    everything = log.read(spark, target, table)
    replace(spark, target, "silver", _table(table), last_state(everything, table))


def _refresh(
    spark: SparkSession,
    target: Target,
    table: Table,
    rows: DataFrame,
    came: Came | None,
    changes: int,
) -> None:
    """Digests after the rows of the log that the extract `came` was made to."""
    name, created = _ensure(spark, target, table, rows)
    held = spark.table(name)
    if created and (came is None or came.batch > 1):
        _recompute(spark, target, table, rows)
    elif came is not None and (created or changes >= MUCH * held.count()):
        replace(spark, target, "silver", _table(table), after(held, came, table))
    else:
        source = to_all(newest(rows, table), changes <= FEW)
        spark.sql(merge_sql(name, table.keys), changes=source)


def after(held: DataFrame, came: Came, table: Table) -> DataFrame:
    """The state `held` with what came: a full extract leaves no more than a delta adds.

    One with lines that tell no key leaves what there was. A key that came, but with no row that can
    be believed, keeps what it had.
    """
    found = _believed(came, table).select(*held.columns)
    if table.feeds[0].mode == "delta" or came.unread.lines:
        return found.unionByName(held.join(found, KEY_DIGEST, "left_anti"))
    if came.whole:
        return found
    kept = held.join(came.rows, KEY_DIGEST, "left_semi").join(found, KEY_DIGEST, "left_anti")
    return found.unionByName(kept)


def _believed(came: Came, table: Table) -> DataFrame:
    """Digests and key columns of the row that counts, of each key that has one."""
    sound = came.rows.where(F.col("_reason").isNull() & F.col(KEY_DIGEST).isNotNull())
    if came.once:
        return sound
    said = F.struct(VALUE_DIGEST, REST_DIGEST, *[column(key) for key in table.keys])
    last = sound.groupBy(KEY_DIGEST).agg(F.max_by(said, "_arrival").alias("_said"))
    return last.select(KEY_DIGEST, "_said.*")


def merge_sql(name: str, keys: list[str]) -> str:
    """The MERGE INTO text; the source is the placeholder `{changes}`."""
    columns = [*DIGESTS, *keys]
    sets = ", ".join(f"t.{digest} = s.{digest}" for digest in DIGESTS if digest != KEY_DIGEST)
    listed = ", ".join(names.quote(c) for c in columns)
    values = ", ".join(f"s.{names.quote(c)}" for c in columns)
    return (
        f"MERGE INTO {name} t USING {{changes}} s ON t.{KEY_DIGEST} = s.{KEY_DIGEST}"
        " WHEN MATCHED AND s._gone THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({listed}) VALUES ({values})"
    )


def _not_supplied(spark: SparkSession, target: Target, table: Table, rows: DataFrame) -> int:
    """How many live keys an extract did not carry."""
    live = spark.table(names.name(target, "silver", _table(table)))
    came = digested(rows.select("_reason", *[column(key) for key in table.keys]), table)
    return live.join(came.select(KEY_DIGEST), KEY_DIGEST, "left_anti").count()


def _table(table: Table) -> str:
    return f"{table.table}_digests"
