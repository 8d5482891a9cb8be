"""`silver.T_pending`: what an apply right now would write, kept beside the table until it is.

Of a table with `max_staleness` that is not shown from its change log (see
`silver.merge.pending_view`) a run folds the pending part of the log with the code that applies it,
and keeps the rows that the MERGE would write: of a current table as they come out, of a history the
versions that are new or differ, of a table without a key those that it keeps. So the table's rows
but these, and these, are what an apply would show, and gold needs no rule of its own to merge them.
The MERGE then takes its rows from here, where they were folded once.

They are written before a MERGE begins and removed after it has ended. Whoever reads both meanwhile
meets them twice at most, and they win over what they are equal to.

What replaces or deletes rows that no pending change names cannot be shown like this: the whole
table folded anew, a truncate or a full snapshot that comes in force, keys that are folded from all
their changes (`silver.changelog.order`), and the first load. These are applied at once, whatever
the promise; what was kept goes first, so until their commit a reader sees what was applied before.
"""

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.writing import replace
from silver.changelog.order import Placed
from silver.contract import (
    CURRENT_COLUMNS,
    HISTORY_COLUMNS,
    KEYLESS_COLUMNS,
    PENDING,
    PENDING_COLUMNS,
    LayerColumn,
    waits_in_log,
)
from silver.fold.spark import Counts, observe
from silver.merge import current, history, keyless
from silver.state.batch import Batch, to_all
from silver.storage import layout
from silver.storage.statements import execute

_OWN = [c.name for c in PENDING_COLUMNS]


class Staged(NamedTuple):
    """The rows that are kept of a batch, and what the fold counted."""

    rows: DataFrame
    counts: Counts


def stage(
    spark: SparkSession, target: Target, table: Table, placed: Placed, done: int, came: int | None
) -> Staged | None:
    """Keeps what the batch would write, in place of what was kept before.

    It is all of the change log above the batch `done`; `came` is when the oldest of it came there
    (µs since 1970), where that is known. None, and nothing is kept, where it cannot be shown beside
    the table (see above).
    """
    batch, kept = placed.batch, kept_in(table)
    replaces = placed.recomputes or batch.cutoff_is_new or batch.of_whole_keys
    if replaces or not names.exists(spark, target, "silver", kept):
        return None
    into, _ = layout.ensure(spark, target, kept, batch.fields, _columns(table))
    seen = Observation()
    values = layout.values(spark.table(into).schema, table.keys)
    if table.keys:
        fold = history.folded_versions if table.stored_as_scd_type == 2 else _current
        written = observe(fold(spark.table(into), table, batch, values))
        rows = written.rows
    else:
        rows = keyless.observed(keyless.new_rows(table, batch, spark.table(into), values), seen)
    name = _place(spark, target, table, batch.fields, rows)
    since = came or _since(spark, target, table, name, done)
    newest = F.lit(batch.number).cast("bigint")
    marked = rows.withColumns({"_since": F.timestamp_micros(F.lit(since)), "_until": newest})
    replace(spark, target, "silver", f"{table.table}{PENDING}", marked)
    counts = written.counts if table.keys else keyless.counts_of(seen, batch)
    return Staged(spark.table(name).drop(*_OWN), counts)


def _current(held: DataFrame, table: Table, batch: Batch, values: list[str]) -> DataFrame:
    return current.folded_rows(held, table, batch, values, narrow=False)


def write(spark: SparkSession, target: Target, table: Table, batch: Batch, rows: DataFrame) -> None:
    """Writes the rows that were kept of a batch into the table."""
    into = names.name(target, "silver", kept_in(table))
    values = layout.values(spark.table(into).schema, table.keys)
    if not table.keys:
        text = keyless.insert_sql(into, rows.columns)
    elif table.stored_as_scd_type == 2:
        text = history.merge_sql(into, table.keys, values, table.nullable_keys)
    else:
        text = current.merge_sql(into, table.keys, values, None, table.nullable_keys)
    execute(spark, text, to_all(rows, batch.few and bool(table.keys)))


def clear(spark: SparkSession, target: Target, table: Table, batch: Batch) -> None:
    """Removes what is kept of a table; where it may keep something its place is made before."""
    if names.exists(spark, target, "silver", f"{table.table}{PENDING}"):
        name = names.name(target, "silver", f"{table.table}{PENDING}")
        if not spark.table(name).isEmpty():
            spark.sql(f"DELETE FROM {name}")
    elif table.max_staleness is not None and not waits_in_log(target, table):
        _ensure(spark, target, table, batch.fields)


def until(spark: SparkSession, target: Target, table: Table) -> int:
    """The newest batch of the change log that is taken in; 0 when nothing is kept."""
    if not names.exists(spark, target, "silver", f"{table.table}{PENDING}"):
        return 0
    rows = spark.table(names.name(target, "silver", f"{table.table}{PENDING}"))
    newest = rows.agg(F.max("_until").alias("until")).first()
    return int(newest["until"] or 0) if newest else 0


def size(spark: SparkSession, target: Target, table: Table) -> int:
    """Bytes of the data files of the table that changes are applied to."""
    name = names.name(target, "silver", kept_in(table))
    return next(int(row["sizeInBytes"]) for row in spark.sql(f"DESCRIBE DETAIL {name}").collect())


def kept_in(table: Table) -> str:
    """The silver table that the changes of a table are applied to."""
    return f"{table.table}_history" if table.stored_as_scd_type == 2 else table.table


def _columns(table: Table) -> tuple[LayerColumn, ...]:
    if not table.keys:
        return KEYLESS_COLUMNS
    return HISTORY_COLUMNS if table.stored_as_scd_type == 2 else CURRENT_COLUMNS


def _place(
    spark: SparkSession, target: Target, table: Table, fields: list[StructField], rows: DataFrame
) -> str:
    """The SQL name of the table of what waits, made anew where it has another shape."""
    name = _ensure(spark, target, table, fields)
    if not set(_shape(rows.schema.fields)) <= set(_shape(spark.table(name).schema.fields)):
        spark.sql(layout.create_sql(name, fields, _layer(table), anew=True))
    return name


def _ensure(spark: SparkSession, target: Target, table: Table, fields: list[StructField]) -> str:
    return layout.ensure(spark, target, f"{table.table}{PENDING}", fields, _layer(table))[0]


def _layer(table: Table) -> tuple[LayerColumn, ...]:
    return (*_columns(table), *PENDING_COLUMNS)


def _shape(fields: Iterable[StructField]) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in fields]


def _since(spark: SparkSession, target: Target, table: Table, name: str, done: int) -> int:
    """When the oldest change above the batch `done` came to the change log, in µs since 1970.

    Its files tell, unless they were rewritten: then what was kept before does.
    """
    log = spark.table(names.name(target, "silver", f"{table.table}_changes"))
    waits = log.where(F.col("_batch") > done)
    came = waits.agg(F.unix_micros(F.min("_metadata.file_modification_time")).alias("at"))
    known = spark.table(name).agg(F.unix_micros(F.min("_since")).alias("at"))
    times = [row["at"] for row in came.unionByName(known).collect() if row["at"] is not None]
    return min(times, default=int(datetime.now(timezone.utc).timestamp() * 1_000_000))
