"""Compares the snapshot files of a date with the last state: their rows as rows of the change log.

Letters: I is a new key, U one with other values, N one without a change, D one that the files lack.
Of several valid rows of a key the newest counts, in whichever file; an equal one is a repeat
without a change, a different one the dead letter `duplicate_key`. A key that has only dead letters
is not missing: it keeps its last state.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.contract import DELETE, NONE, UPSERT
from silver.snapshot_source.row_digests import (
    DIGESTS,
    KEY_DIGEST,
    OPERATIONAL_DIGEST,
    VALUE_DIGEST,
    with_digests,
)
from silver.storage.layout import LETTER_COLUMN
from silver.storage.row_columns import column, has_key

DUPLICATE = "duplicate_key"
_DEAD_LETTER = "dead letter"


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


def select_newest_rows(staged: DataFrame) -> DataFrame:
    """Arrival and digests of each key's newest valid row, null where all are dead letters."""
    content = F.struct("_arrival", VALUE_DIGEST, OPERATIONAL_DIGEST)
    valid = F.when(F.col("_reason").isNull(), content)
    keyed = staged.where(F.col(KEY_DIGEST).isNotNull()).groupBy(KEY_DIGEST)
    newest = F.col("__newest")
    return keyed.agg(F.max(valid).alias("__newest")).select(
        KEY_DIGEST,
        newest[VALUE_DIGEST].alias("__newest_values"),
        newest[OPERATIONAL_DIGEST].alias("__newest_operational"),
        newest["_arrival"].alias("__newest_arrival"),
    )


def equals_newest() -> Column:
    """Whether a row, joined to `select_newest_rows`, equals the newest valid row of its key."""
    same = F.col(OPERATIONAL_DIGEST).eqNullSafe(F.col("__newest_operational"))
    return F.coalesce((F.col(VALUE_DIGEST) == F.col("__newest_values")) & same, F.lit(False))


def compare_rows(
    staged: DataFrame, state: DataFrame, table: Table, files: SnapshotFiles, unique_keys: bool
) -> DataFrame:
    """Snapshot rows as rows of the log with `_letter`, and deletes of the keys that they lack.

    Args:
        staged: decoded and gated rows of the snapshot files with digests.
        state: the state before them.
        table: the table's configuration.
        files: the snapshot files.
        unique_keys: whether no two rows have the same key.
    """
    before = state.select(*[column(c).alias(_name_before(c)) for c in state.columns])
    same_key = F.col(KEY_DIGEST) == column(_name_before(KEY_DIGEST))
    how = "full_outer" if files.deletes else "left"
    rows = _mark_newest(staged, unique_keys).join(before, same_key, how)
    rows = rows.withColumn("__letter", _choose_letter()).withColumn("__as", _choose_operation())
    fields = [field for field in staged.schema.fields if field.name not in DIGESTS]
    supplied = _build_supplied([field.name for field in fields], table)
    missing = _build_missing(files, table)
    columns = [_choose_column(field, supplied, missing).alias(field.name) for field in fields]
    return rows.select(*columns, F.col("__letter").alias(LETTER_COLUMN.name))


def _mark_newest(staged: DataFrame, unique_keys: bool) -> DataFrame:
    """Marks valid rows: `__counts` on the newest of a key, `__duplicate` on different older ones.

    An older row that is equal to the newest has no mark.
    """
    valid = F.col("_reason").isNull() & F.col(KEY_DIGEST).isNotNull()
    if unique_keys:
        return staged.withColumns({"__counts": valid, "__duplicate": F.lit(False)})
    rows = staged.join(select_newest_rows(staged), KEY_DIGEST, "left")
    is_newest = F.coalesce(F.col("_arrival") == F.col("__newest_arrival"), F.lit(False))
    duplicate = valid & ~is_newest & ~equals_newest()
    return rows.withColumns({"__counts": valid & is_newest, "__duplicate": duplicate})


def _choose_letter() -> Column:
    """The letter of a row that counts, or of a missing key; null for other rows."""
    is_new = column(_name_before(KEY_DIGEST)).isNull()
    same = F.col(VALUE_DIGEST) == column(_name_before(VALUE_DIGEST))
    letter = F.when(is_new, "I").when(same, "N").otherwise("U")
    return F.when(F.col("_arrival").isNull(), "D").when(F.col("__counts"), letter)


def _choose_operation() -> Column:
    """The operation of a row, or that it is a dead letter."""
    letter, rejected = F.col("__letter"), F.col("_reason").isNotNull() | F.col("__duplicate")
    before = column(_name_before(OPERATIONAL_DIGEST))
    refreshed = letter.isNotNull() & ~F.col(OPERATIONAL_DIGEST).eqNullSafe(before)
    operation = F.when(letter == "D", DELETE).when(rejected, _DEAD_LETTER)
    return operation.when((letter != "N") | refreshed, UPSERT).otherwise(NONE)


def _name_before(name: str) -> str:
    """The name that a column of the state has beside the columns of the snapshot rows."""
    return f"__before {name}"


def _choose_column(
    field: T.StructField, supplied: Mapping[str, Column], missing: Mapping[str, Column]
) -> Column:
    """A column of the log: that of a supplied row, or else that of the delete of a missing key."""
    if field.name not in missing:
        return supplied[field.name]
    is_supplied = F.col("_arrival").isNotNull()
    otherwise = missing[field.name].cast(field.dataType)
    return F.when(is_supplied, supplied[field.name]).otherwise(otherwise)


def _build_supplied(names: Sequence[str], table: Table) -> dict[str, Column]:
    """Columns of a supplied row; an unchanged one has no values but its key."""
    operation = F.when(F.col("__as") != _DEAD_LETTER, F.col("__as"))
    values = {name for name in names if not name.startswith("_")} - {*table.keys}
    has_values, duplicate = F.col("__as").isin(UPSERT, _DEAD_LETTER), F.col("__duplicate")
    columns = {n: F.when(has_values, column(n)) if n in values else column(n) for n in names}
    return columns | {
        "_operation": operation,
        "_reason": F.when(duplicate, F.lit(DUPLICATE)).otherwise(F.col("_reason")),
        "_message": F.when(duplicate, _duplicate_message(table)).otherwise(F.col("_message")),
        "_warnings": F.when(operation == UPSERT, F.col("_warnings")),
    }


def _duplicate_message(table: Table) -> Column:
    hidden = any(map(table.is_sensitive, table.keys))
    key = F.lit("not shown") if hidden else F.to_json(F.struct(*[column(k) for k in table.keys]))
    problem = ": found another row of the snapshot file that came later, expected one row per key"
    return F.concat(F.lit("key "), key, F.lit(problem))


def _build_missing(files: SnapshotFiles, table: Table) -> dict[str, Column]:
    """Columns of the delete of a missing key, which has no record of its own.

    `_arrival` is the last one of the snapshot files with the key's digest.
    """
    days = F.lit((files.day - date(1970, 1, 1)).days)
    digest = column(_name_before(KEY_DIGEST))
    return {
        "_sequence": F.lit(files.sequence),
        "_source_time": F.timestamp_seconds(days.cast("bigint") * 86_400),
        "_arrival": F.concat(F.lit(f"{files.arrival}/"), F.hex(digest)),
        "_position": F.lit(f"snapshot file of {files.day.isoformat()}"),
        "_feed": F.lit(files.feed),
        "_feed_batch": F.lit(files.feed_batch),
    } | {key: column(_name_before(key)) for key in table.keys}


def select_live_keys(changes: DataFrame, table: Table) -> DataFrame:
    """The live keys after some upserts and deletes of the log: digests and key columns."""
    return select_newest_changes(changes, table).where(~F.col("_gone")).drop("_gone")


def select_newest_changes(changes: DataFrame, table: Table) -> DataFrame:
    """Digests and key columns of the newest change of each key, `_gone` where it is a delete."""
    rows = add_digests(changes.where(F.col("_operation").isin(UPSERT, DELETE)), table)
    is_delete = (F.col("_operation") == DELETE).alias("_gone")
    newest = F.max_by(
        F.struct(VALUE_DIGEST, OPERATIONAL_DIGEST, is_delete), F.struct("_sequence", "_arrival")
    )
    keys = [F.first(column(key)).alias(key) for key in table.keys]
    grouped = rows.groupBy(KEY_DIGEST).agg(newest.alias("_newest"), *keys)
    return grouped.select(KEY_DIGEST, "_newest.*", *[column(key) for key in table.keys])
