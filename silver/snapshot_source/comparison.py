"""Compares the snapshot files of a date with the last state: their rows as rows of the change log.

Of several rows of one key the one that arrived last counts, in whichever file; an equal one is a
repeat without a change, a different one the dead letter `duplicate_key`. A key that has only dead
letters is not missing: it keeps its last state.
"""

from datetime import date
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from silver.contract import DELETE, NONE, UPSERT
from silver.snapshot_source.row_digests import (
    DIGESTS,
    KEY_DIGEST,
    REST_DIGEST,
    VALUE_DIGEST,
    with_digests,
)
from silver.storage.layout import LETTER_COLUMN
from silver.storage.row_columns import column, has_key

DUPLICATE = "duplicate_key"


class SnapshotFiles(NamedTuple):
    """The snapshot files of a date, with what the deletes of missing keys need.

    Date, sequence, greatest arrival, bronze table and newest ingest batch of the rows, and whether
    keys that the files lack are deleted.
    """

    day: date
    sequence: str
    arrival: str
    feed: str
    feed_batch: int
    deletes: bool = False


def add_digests(changes: DataFrame, table: Table) -> DataFrame:
    """Decoded rows with their three digests; the key's is null where the row has no key."""
    operational = [name for name, declared in table.columns.items() if declared.operational]
    rows = with_digests(changes, table.keys, operational)
    has_usable_key = F.col("_reason").isNull() | has_key(table)
    return rows.withColumn(KEY_DIGEST, F.when(has_usable_key, F.col(KEY_DIGEST)))


def select_supplied(staged: DataFrame) -> DataFrame:
    """One row per supplied key: digests of the row that counts, null where all are dead letters.

    `_winner` is the arrival of that row.
    """
    sound = F.when(F.col("_reason").isNull(), F.struct("_arrival", VALUE_DIGEST, REST_DIGEST))
    keyed = staged.where(F.col(KEY_DIGEST).isNotNull()).groupBy(KEY_DIGEST)
    last = F.col("_last")
    return keyed.agg(F.max(sound).alias("_last")).select(
        KEY_DIGEST,
        last[VALUE_DIGEST].alias("__values"),
        last[REST_DIGEST].alias("__rest"),
        last["_arrival"].alias("_winner"),
    )


def is_equal() -> Column:
    """Whether a row, joined to `select_supplied`, equals the row of its key that counts."""
    rest = F.col(REST_DIGEST).eqNullSafe(F.col("__rest"))
    return F.coalesce((F.col(VALUE_DIGEST) == F.col("__values")) & rest, F.lit(False))


def compare_rows(
    staged: DataFrame, state: DataFrame, table: Table, files: SnapshotFiles, once: bool
) -> DataFrame:
    """Snapshot rows as rows of the log with `_letter`, and deletes of the keys that they lack.

    Unchanged rows keep their key only.

    Args:
        staged: decoded and gated rows of the snapshot files with digests.
        state: the state before them.
        table: the table's configuration.
        files: the snapshot files.
        once: whether no two rows have the same key.
    """
    was = state.select(*[column(c).alias(_name_before(c)) for c in state.columns])
    how = "full_outer" if files.deletes else "left"
    came = _mark_winners(staged, once)
    met = came.join(was, F.col(KEY_DIGEST) == column(_name_before(KEY_DIGEST)), how)
    rows = met.withColumn("__letter", _choose_letter()).withColumn("__as", _choose_operation())
    as_change, twin = F.when(F.col("__as") != "dead", F.col("__as")), F.col("__twin")
    settled = {
        "_operation": as_change,
        "_reason": F.when(twin, F.lit(DUPLICATE)).otherwise(F.col("_reason")),
        "_message": F.when(twin, _twin_message(table)).otherwise(F.col("_message")),
        "_warnings": F.when(as_change == UPSERT, F.col("_warnings")),
    }
    gone = _of_missing(files, column(_name_before(KEY_DIGEST)))
    gone |= {key: column(_name_before(key)) for key in table.keys}
    kept = [field for field in staged.schema.fields if field.name not in DIGESTS]
    columns = {field.name: settled.get(field.name, column(field.name)) for field in kept}
    values = [name for name in columns if not name.startswith("_") and name not in table.keys]
    columns |= {c: F.when(F.col("__as").isin(UPSERT, "dead"), column(c)) for c in values}
    shown = [
        _one_of(columns[field.name], gone[field.name].cast(field.dataType))
        if field.name in gone
        else columns[field.name]
        for field in kept
    ]
    named = [one.alias(field.name) for one, field in zip(shown, kept, strict=True)]
    return rows.select(*named, F.col("__letter").alias(LETTER_COLUMN.name))


def _mark_winners(staged: DataFrame, once: bool) -> DataFrame:
    """Marks sound rows: `__counts` on the last one of a key, `__twin` on others.

    An earlier row that is equal to the last one has no mark.
    """
    sound = F.col("_reason").isNull() & F.col(KEY_DIGEST).isNotNull()
    if once:
        return staged.withColumns({"__counts": sound, "__twin": F.lit(False)})
    rows = staged.join(select_supplied(staged), KEY_DIGEST, "left")
    wins = F.coalesce(F.col("_arrival") == F.col("_winner"), F.lit(False))
    return rows.withColumns({"__counts": sound & wins, "__twin": sound & ~wins & ~is_equal()})


def _twin_message(table: Table) -> Column:
    hidden = any(map(table.is_sensitive, table.keys))
    key = F.lit("not shown") if hidden else F.to_json(F.struct(*[column(k) for k in table.keys]))
    said = ": found another row of the snapshot file that came later, expected one row per key"
    return F.concat(F.lit("key "), key, F.lit(said))


def _one_of(present: Column, gone: Column) -> Column:
    """A column of a supplied row, or else of a missing key."""
    return F.when(F.col("_arrival").isNotNull(), present).otherwise(gone)


def _choose_letter() -> Column:
    """The letter of a row that counts, or of a missing key; null for other rows."""
    same = F.col(VALUE_DIGEST) == column(_name_before(VALUE_DIGEST))
    said = F.when(column(_name_before(KEY_DIGEST)).isNull(), "I").when(same, "N").otherwise("U")
    return F.when(F.col("_arrival").isNull(), "D").when(F.col("__counts"), said)


def _choose_operation() -> Column:
    letter, rejected = F.col("__letter"), F.col("_reason").isNotNull() | F.col("__twin")
    refreshed = ~F.col(REST_DIGEST).eqNullSafe(column(_name_before(REST_DIGEST)))
    became = F.when(letter == "D", DELETE).when(rejected, "dead")
    return became.when((letter != "N") | (letter.isNotNull() & refreshed), UPSERT).otherwise(NONE)


def _name_before(name: str) -> str:
    return f"__was {name}"


def _of_missing(files: SnapshotFiles, digest: Column) -> dict[str, Column]:
    """Columns of the delete of a missing key, which has no record of its own.

    `_arrival` is the last one of the snapshot files with the key's digest.
    """
    days = F.lit((files.day - date(1970, 1, 1)).days)
    return {
        "_sequence": F.lit(files.sequence),
        "_source_time": F.timestamp_seconds(days.cast("bigint") * 86_400),
        "_arrival": F.concat(F.lit(f"{files.arrival}/"), F.hex(digest)),
        "_position": F.lit(f"snapshot file of {files.day.isoformat()}"),
        "_feed": F.lit(files.feed),
        "_feed_batch": F.lit(files.feed_batch),
    }


def last_state(changes: DataFrame, table: Table) -> DataFrame:
    """The live keys after some upserts and deletes of the log: digests and key columns."""
    newest = select_newest_changes(changes, table).where(~F.col("_gone"))
    return newest.drop("_gone")


def select_newest_changes(changes: DataFrame, table: Table) -> DataFrame:
    """Digests and key columns of the newest change of each key, `_gone` where it is a delete."""
    rows = add_digests(changes.where(F.col("_operation").isin(UPSERT, DELETE)), table)
    place = F.struct("_sequence", "_arrival")
    said = F.struct(VALUE_DIGEST, REST_DIGEST, (F.col("_operation") == DELETE).alias("_gone"))
    keys = [F.first(column(key)).alias(key) for key in table.keys]
    grouped = rows.groupBy(KEY_DIGEST).agg(F.max_by(said, place).alias("_said"), *keys)
    return grouped.select(KEY_DIGEST, "_said.*", *[column(key) for key in table.keys])
