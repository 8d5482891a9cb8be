"""Compares the snapshot files of a date with the live rows before it, by one join of their keys.

Letters: I is a new key, U one with other values, N one without a change, D one that the files lack.
Of several valid rows of a key the newest counts, in whichever file; an equal one is a repeat
without a change, a different one the dead letter `duplicate_key`. A key that has only dead letters
is not missing: it keeps its last state. Operational columns decide no letter, but a row that
differs in them is written anew.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from bronze.contract import arrival_prefix
from lakehouse.config.table import Table
from lakehouse.storage.names import quote
from lakehouse.storage.statements import render_equal
from lakehouse.words import EXACT_TIMES
from silver.contract import DELETE, NONE, UPSERT
from silver.decode.protocols.snapshot_files import sequence_of_day
from silver.storage.layout import LETTER_COLUMN, list_source_fields, list_value_columns
from silver.storage.row_columns import all_of, column, has_key

DUPLICATE = "duplicate_key"
_MISSING, _REJECTED, _NEWEST, _REPEAT = "missing", "rejected", "newest", "repeat"


class SnapshotFiles(NamedTuple):
    """The snapshot files of a date: bronze table, newest ingest batch, and whether they are full.

    Keys that full ones lack are deleted.
    """

    day: date
    feed: str
    feed_batch: int
    full: bool


def compare_rows(
    rows: DataFrame, live: DataFrame | None, table: Table, files: SnapshotFiles
) -> DataFrame:
    """Snapshot rows as rows of the log with `_letter`, and deletes of the keys that they lack.

    Args:
        rows: decoded and gated rows of the snapshot files.
        live: keys and values of the live rows before them; None where there are none.
        table: the table's configuration.
        files: the snapshot files.
    """
    values = [f for f in list_source_fields(rows.schema) if f.name not in table.keys]
    declared = {name for name, of in table.columns.items() if of.operational}
    operational = [f for f in values if f.name in declared]
    compared = [f for f in values if f.name not in declared]
    how = "full_outer" if files.full else "left"
    joined = join_live(_rank_rows(rows, table), live, table, how)
    sorted_out = joined.withColumn("__case", _choose_case(values))
    lettered = sorted_out.withColumn("__letter", _choose_letter(compared))
    written = lettered.withColumn("__operation", _choose_operation(operational))
    supplied = _build_supplied(rows.columns, table)
    missing = _build_missing(files, table) if files.full else {}
    columns = [_choose_column(f, supplied, missing).alias(f.name) for f in rows.schema.fields]
    return written.select(*columns, F.col("__letter").alias(LETTER_COLUMN.name))


def to_unchanged_rows(rows: DataFrame, table: Table) -> DataFrame:
    """Log rows of records that change nothing: repeats of a day's rows, files without a date."""
    emptied = {
        field.name: F.lit(None).cast(field.dataType)
        for field in list_source_fields(rows.schema)
        if field.name not in table.keys
    }
    unchanged = F.when(F.col("_reason").isNull(), NONE)
    letter = F.lit(None).cast("string")
    return rows.withColumns({**emptied, "_operation": unchanged, LETTER_COLUMN.name: letter})


def join_live(rows: DataFrame, live: DataFrame | None, table: Table, how: str) -> DataFrame:
    """Joins snapshot rows with the live rows of their keys; `__is_live` is null without one."""
    fields = {_name_live(field.name): field for field in list_source_fields(rows.schema)}
    if live is None:
        nulls = {name: F.lit(None).cast(field.dataType) for name, field in fields.items()}
        return rows.withColumns(nulls | {"__is_live": F.lit(None).cast("boolean")})
    renamed = [_read_as(live.schema, field).alias(name) for name, field in fields.items()]
    named = live.select(*renamed, F.lit(True).alias("__is_live"))
    return rows.join(named, _build_same_key(table), how)


def are_same(fields: Sequence[T.StructField]) -> Column:
    """Whether a snapshot row has the values of the live row that is joined to it."""
    pairs = [(quote(f.name), quote(_name_live(f.name)), f.dataType) for f in fields]
    return all_of([F.expr(render_equal(*pair)) for pair in pairs])


def _rank_rows(rows: DataFrame, table: Table) -> DataFrame:
    """The rows with their rank in their key, newest valid row first, and the values of that row.

    They come out sorted by their keys, as the join needs them.
    """
    keys = [*map(column, table.keys)]
    order = Window.partitionBy(*keys).orderBy(F.col("_reason").isNotNull(), F.desc("_arrival"))
    values = [column(name) for name in list_value_columns(rows.schema, table.keys)]
    newest = F.first(F.struct(F.lit(True).alias("__found"), *values)).over(order)
    return rows.withColumns({"__rank": F.row_number().over(order), "__newest": newest})


def _read_as(held: T.StructType, field: T.StructField) -> Column:
    """A column in the type of a field; nulls where it is not held."""
    if field.name not in held.names:
        return F.lit(None).cast(field.dataType)
    is_same = held[field.name].dataType.simpleString() == field.dataType.simpleString()
    return column(field.name) if is_same else column(field.name).cast(field.dataType)


def _name_live(name: str) -> str:
    """The name that a column of a live row has beside the columns of the snapshot rows."""
    return f"__live {name}"


def _build_same_key(table: Table) -> Column:
    """Whether a snapshot row and a live one have the same key; a row without a key has none."""
    live = {key: column(_name_live(key)) for key in table.keys}
    same = [
        column(key).eqNullSafe(held) if key in table.nullable_keys else column(key) == held
        for key, held in live.items()
    ]
    keyed = [F.col("_reason").isNull() | has_key(table)] if table.nullable_keys else []
    return all_of([*same, *keyed])


def _choose_case(values: Sequence[T.StructField]) -> Column:
    """What a joined row is: missing, rejected, the newest of its key, its repeat or another one."""
    repeats = [
        F.expr(render_equal(quote(f.name), f"__newest.{quote(f.name)}", f.dataType)) for f in values
    ]
    return (
        F.when(F.col("_arrival").isNull(), _MISSING)
        .when(F.col("_reason").isNotNull(), _REJECTED)
        .when(F.col("__rank") == 1, _NEWEST)
        .when(all_of(repeats), _REPEAT)
        .otherwise(DUPLICATE)
    )


def _choose_letter(compared: Sequence[T.StructField]) -> Column:
    """The letter of a key: of its newest row, or of its live row alone; null on other rows."""
    case = F.col("__case")
    changed = F.when(F.col("__is_live").isNull(), "I").when(are_same(compared), "N").otherwise("U")
    return F.when(case == _MISSING, "D").when(case == _NEWEST, changed)


def _choose_operation(operational: Sequence[T.StructField]) -> Column:
    """The operation of a row; null on a dead letter."""
    case, letter = F.col("__case"), F.col("__letter")
    is_written = letter.isin("I", "U") | ((letter == "N") & ~are_same(operational))
    return (
        F.when(letter == "D", DELETE).when(is_written, UPSERT)
        .when(case.isin(_NEWEST, _REPEAT), NONE)
    )  # fmt: skip


def _choose_column(
    field: T.StructField, supplied: Mapping[str, Column], missing: Mapping[str, Column]
) -> Column:
    """A column of the log: that of a supplied row, or else that of the delete of a missing key."""
    if field.name not in missing:
        return supplied[field.name]
    otherwise = missing[field.name].cast(field.dataType)
    return F.when(F.col("__case") == _MISSING, otherwise).otherwise(supplied[field.name])


def _build_supplied(names: Sequence[str], table: Table) -> dict[str, Column]:
    """Columns of a supplied row; an unchanged one has no values but its key."""
    operation, is_duplicate = F.col("__operation"), F.col("__case") == DUPLICATE
    values = {name for name in names if not name.startswith("_")} - {*table.keys}
    has_values = operation.isNull() | (operation == UPSERT)
    columns = {n: F.when(has_values, column(n)) if n in values else column(n) for n in names}
    return columns | {
        "_operation": operation,
        "_reason": F.when(is_duplicate, F.lit(DUPLICATE)).otherwise(F.col("_reason")),
        "_message": F.when(is_duplicate, _describe_duplicate(table)).otherwise(F.col("_message")),
        "_warnings": F.when(operation == UPSERT, F.col("_warnings")),
    }


def _describe_duplicate(table: Table) -> Column:
    hidden = any(map(table.is_sensitive, table.keys))
    key = F.lit("not shown") if hidden else F.to_json(F.struct(*[column(k) for k in table.keys]))
    problem = ": found another row of the snapshot file that came later, expected one row per key"
    return F.concat(F.lit("key "), key, F.lit(problem))


def _build_missing(files: SnapshotFiles, table: Table) -> dict[str, Column]:
    """Columns of the delete of a missing key, which has no record of its own.

    Its `_arrival` begins like those of the files' newest ingest batch, and no other key has it.
    """
    days = F.lit((files.day - date(1970, 1, 1)).days)
    keys = {key: column(_name_live(key)) for key in table.keys}
    named = F.to_json(F.struct(*[keys[key].alias(key) for key in keys]), EXACT_TIMES)
    return {
        "_operation": F.lit(DELETE),
        "_sequence": F.lit(sequence_of_day(files.day)),
        "_source_time": F.timestamp_seconds(days.cast("bigint") * 86_400),
        "_arrival": F.concat(F.lit(f"{arrival_prefix(files.feed_batch)}/"), F.sha2(named, 256)),
        "_position": F.lit(f"snapshot file of {files.day.isoformat()}"),
        "_feed": F.lit(files.feed),
        "_feed_batch": F.lit(files.feed_batch),
    } | keys
