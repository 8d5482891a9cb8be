"""An extract into the change log: decode, gate, compare with the last state, write.

An extract is what a folder `PATH/YYYY-MM-DD/` holds when a run finds it. Each is one batch of the
change log and takes the place of everything there from its date on: nothing as a rule, but for a
day that arrives late or gets more files it is the days after it, which are then compared anew.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import SchemaChangeRefused
from lakehouse.storage import names
from lakehouse.storage.writing import append, replace
from silver.changelog.decoded_batch import RawBatch, write_decoded
from silver.contract import GATED_COLUMNS, LOG_COLUMNS, NONE
from silver.decode.protocols.snapshot_files import sequence_of_day
from silver.run import Run, SilverTable
from silver.snapshot_source import snapshot_dates, snapshot_state
from silver.snapshot_source.comparison import (
    DUPLICATE,
    Extract,
    compared,
    compared_once,
    deletes,
    digested,
    supplied,
)
from silver.snapshot_source.row_digests import (
    KEY_DIGEST,
    REST_DIGEST,
    VALUE_DIGEST,
    letters,
    letters_of_few,
)
from silver.snapshot_source.snapshot_dates import Pending, effective_date
from silver.snapshot_source.snapshot_state import Came
from silver.snapshot_source.unread_lines import UnreadLines, unread_lines
from silver.state.batch import to_all
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.row_columns import column, digest
from silver.storage.side_columns import DIGEST_COLUMNS, LETTER_COLUMN

# What every task may hold: keys, and whole records.
FEW, FEW_RECORDS = 100_000, 1_000


class Counted(NamedTuple):
    """Keys that came, those of which some row can be believed, rows of a key, and sound ones.

    `arrival` is the last one of these; None without any. `unread` are rows that tell no key.
    """

    keys: int
    believed: int
    rows: int
    sound: int
    arrival: str | None
    unread: int

    @property
    def once(self) -> bool:
        """Whether every key came with one row."""
        return self.rows == self.keys


def append_snapshot_files(
    run: Run, snapshot_table: SilverTable, pending: Pending, state: TableState
) -> tuple[TableState, Came | None]:
    """Adds the files of one date to the log as its next batch.

    They take the place of what the log has from their date on.

    Returns:
        What is known of the table then, and what came, where it was compared.

    Raises:
        ConfigurationDrift: the configuration contradicts what the table was built with.
        SchemaChangeRefused: a change of the columns that the table does not allow.
    """
    raw = _rows(snapshot_table.spark, snapshot_table.target, snapshot_table.config, pending)
    batch = RawBatch(snapshot_table, state, raw)
    try:
        staged = _staged(batch)
    except SchemaChangeRefused:
        run.noted[snapshot_table.name] = batch.after(run.id)
        raise
    came = _compare(batch, staged, pending)
    snapshot_table.log.forget()
    return batch.after(run.id).replace(logged=state.logged + 1), came


def _compare(batch: RawBatch, staged: DataFrame, pending: Pending) -> Came | None:
    """Writes the staged rows to the log as what they change."""
    spark, target, table = batch.table.spark, batch.table.target, batch.table.config
    number, days = batch.state.logged + 1, snapshot_dates.days_of(batch.state)
    known = days.get(pending.day)
    read = known.feed_batch if known is not None and known.batch is not None else 0
    found = _counted(staged)
    waits = known is not None and bool(known.unread_lines)
    if pending.day is None or not found.believed or (not waits and _repeats_only(staged, read)):
        new = staged.where(F.col("_feed_batch") > read)
        _write_log(spark, target, table, _noted(new, table), number, None)
        return None
    sequence = sequence_of_day(pending.day)
    feed = snapshot_dates.feed_of(table)
    is_full = table.feeds[0].mode == "full"
    unread = unread_lines(staged, table) if is_full and found.unread else UnreadLines(0, [])
    deletes = is_full and not unread.lines
    extract = Extract(pending.day, sequence, str(found.arrival), feed, pending.newest, deletes)
    before = snapshot_state.before(spark, target, table, days, pending.day)
    rows = _compared(staged, before, table, extract, found)
    repeated = found.sound - found.believed
    if repeated > 0:
        rows = _with_raw(rows, batch.raw, repeated <= FEW_RECORDS)
    _write_log(spark, target, table, rows, number, sequence)
    return Came(number, staged, found.once, found.believed == found.keys, unread)


def _rows(spark: SparkSession, target: Target, table: Table, pending: Pending) -> DataFrame:
    day = F.lit(pending.day.isoformat() if pending.day else None).cast("date")
    rows = snapshot_dates.feed(spark, target, table).where(F.col("_batch") <= pending.newest)
    if pending.batches is not None:
        rows = rows.where(F.col("_batch").isin(pending.batches))
    mine = rows.where(effective_date(F.col("_file"), table).eqNullSafe(day))
    return mine.withColumn("_feed", F.lit(snapshot_dates.feed_of(table)))


def _staged(batch: RawBatch) -> DataFrame:
    """Decoded and gated rows with digests, written once: the comparison reads the digests only."""
    spark, target, table = batch.table.spark, batch.table.target, batch.table.config
    staged, layer = f"{table.table}_staged", (*GATED_COLUMNS, *DIGEST_COLUMNS)
    name = names.name(target, "silver", staged)

    def write(changes: DataFrame) -> _Staged:
        rows = _Staged(digested(changes, table), Observation())
        layout.ensure(spark, target, staged, layout.business(changes.schema), layer)
        replace(spark, target, "silver", staged, rows.watched())
        return rows

    def rewrite(changes: DataFrame) -> _Staged:
        layout.drop_retyped(spark, target, staged, layout.business(changes.schema))
        return write(changes)

    _, rows = write_decoded(batch, write, rewrite)
    return spark.table(name).select(*[column(c) for c in rows.changes.columns])


class _Staged(NamedTuple):
    """Rows that are staged, and what is seen of them meanwhile."""

    changes: DataFrame
    seen: Observation

    def watched(self) -> DataFrame:
        return self.changes.observe(self.seen, F.count("_unlike").alias("unlike"))

    def unlike(self) -> int:
        """How many records show columns or types that they were decoded without."""
        return int(self.seen.get["unlike"])


def _repeats_only(staged: DataFrame, read: int) -> bool:
    """Whether the rows above ingest batch `read` are equal to those of the extract that count."""
    if not read:
        return False
    old = supplied(staged.where(F.col("_feed_batch") <= read)).select(
        KEY_DIGEST, F.col(VALUE_DIGEST).alias("__values"), F.col(REST_DIGEST).alias("__rest")
    )
    new = staged.where(F.col("_feed_batch") > read).join(old, KEY_DIGEST, "left")
    equal = (F.col(VALUE_DIGEST) == F.col("__values")) & F.col(REST_DIGEST).eqNullSafe(
        F.col("__rest")
    )
    sound = F.col("_reason").isNull()
    return new.where(~F.coalesce(sound & equal, F.lit(False))).isEmpty()


def _counted(staged: DataFrame) -> Counted:
    """Looks at digests and at little else."""
    sound, keyed = F.col("_reason").isNull(), staged.where(F.col(KEY_DIGEST).isNotNull())
    by_key = keyed.groupBy(KEY_DIGEST).agg(
        F.count(F.lit(1)).alias("rows"), F.count_if(sound).alias("sound")
    )
    counts = by_key.agg(
        F.count(F.lit(1)).alias("keys"),
        F.count_if(F.col("sound") > 0).alias("believed"),
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.coalesce(F.sum("sound"), F.lit(0)).alias("sound"),
    )
    has_key = F.col(KEY_DIGEST).isNotNull()
    last = staged.agg(
        F.max(F.when(sound & has_key, F.col("_arrival"))).alias("arrival"),
        F.count_if(~has_key & ~sound).alias("unread"),
    )
    return Counted(*counts.crossJoin(last).collect()[0])


def _compared(
    staged: DataFrame, state: DataFrame | None, table: Table, extract: Extract, found: Counted
) -> DataFrame:
    """The extract's rows with their letters, and the deletes that follow from them."""
    if state is None:
        state = staged.limit(0).select(*[column(c) for c in _state_columns(table)])
    many = table.feeds[0].mode == "full" or found.keys > FEW
    if many and found.once:
        return compared_once(staged, state, table, extract)
    came = supplied(staged)
    said = (
        letters(came, state, "full" if extract.deletes else "delta")
        if many
        else letters_of_few(came, state)
    )
    rows = compared(staged, came, said, table)
    return rows.unionByName(deletes(said, state, rows, extract)) if extract.deletes else rows


def _state_columns(table: Table) -> list[str]:
    return [*[c.name for c in DIGEST_COLUMNS], *table.keys]


def _with_raw(rows: DataFrame, raw: DataFrame, few: bool) -> DataFrame:
    """Dead letters that only the comparison found get their raw record back."""
    twins = rows.where(F.col("_reason") == DUPLICATE).select("_arrival")
    records = raw.select("_arrival", F.col("_raw").alias("__raw"))
    found = records.join(twins, "_arrival", "left_semi")
    joined = rows.join(to_all(found, few), "_arrival", "left")
    filled = joined.withColumn("_raw", F.coalesce("_raw", "__raw"))
    return filled.select(*[column(c) for c in rows.columns])


def _noted(staged: DataFrame, table: Table) -> DataFrame:
    """Rows that change nothing as rows of the log: repeats, and dead letters of no extract."""
    emptied = [
        column(c) if c in table.keys else F.lit(None).cast(staged.schema[c].dataType).alias(c)
        for c in staged.columns
        if not c.startswith("_")
    ]
    sound = F.when(F.col("_reason").isNull(), NONE).alias("_operation")
    layer = [sound if c.name == "_operation" else F.col(c.name) for c in GATED_COLUMNS]
    letter = F.lit(None).cast("string").alias(LETTER_COLUMN.name)
    return staged.select(*emptied, *layer, letter)


def _write_log(
    spark: SparkSession,
    target: Target,
    table: Table,
    rows: DataFrame,
    number: int,
    since: str | None,
) -> None:
    """One commit: batch `number`, in place of what has a sequence from `since` on."""
    fields = layout.business(rows.schema)
    layer = (*LOG_COLUMNS, LETTER_COLUMN)
    name, _ = layout.ensure(spark, target, f"{table.table}_changes", fields, layer)
    values = [field.name for field in fields if field.name not in table.keys]
    logged = rows.withColumns({"_digest": digest(values), "_batch": F.lit(number)})
    if since is None:
        append(spark, target, "silver", f"{table.table}_changes", logged)
    else:
        logged.writeTo(name).overwrite(F.col("_sequence") >= F.lit(since))
