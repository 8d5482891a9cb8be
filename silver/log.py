"""The change log `silver.T_changes`: every record of bronze once, decoded, in source order.

One row per bronze record, dead letters and records without a change included, so that the classes
of a run add up to its records. It is written in the pass that parses, and read by everything after
that.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver import layout, reading
from silver.compact import digest
from silver.contract import DELETE, LOG_COLUMNS, NONE, TRUNCATE, UPSERT
from silver.epochs import Sighting, domain, position
from silver.presence import absent_before
from silver.stages import apart

_LEAVE_OUT = ("ydb", "bigquery", "rows")


class Summary(NamedTuple):
    """What a part of the log holds.

    `incomplete` counts changes that do not carry every column, of which `partial` names the
    columns; `heirs` counts those among them that moved from another key; `rejected` counts dead
    letters by reason; `sightings` are the full snapshots that show; `oldest` is the lowest sequence
    of a change.
    """

    records: int
    changes: int
    truncates: int
    without_change: int
    incomplete: int
    heirs: int
    rejected: dict[str, int]
    sightings: list[Sighting]
    partial: list[str]
    oldest: str | None


def append(
    spark: SparkSession, target: Target, table: Table, changes: DataFrame, batch: int
) -> None:
    """Adds decoded and gated changes to the log as one batch; new columns, wider types grow it."""
    fields = layout.business(changes.schema)
    name, _ = layout.ensure(spark, target, f"{table.table}_changes", fields, LOG_COLUMNS, batch)
    columns = [f.name for f in fields if f.name not in table.keys]
    logged = apart(changes.withColumn("_digest", digest(columns)))
    logged.withColumn("_batch", F.lit(batch)).writeTo(name).append()


def read(spark: SparkSession, target: Target, table: Table) -> DataFrame:
    """The whole log; a row does not carry the columns that came to the table after its batch.

    But for the formats in which a row that lacks a column says that it is null.
    """
    rows = spark.table(names.name(target, "silver", f"{table.table}_changes"))
    late = late_columns(table, rows)
    return rows.withColumn("_absent", absent_before(late)) if late else rows


def late_columns(table: Table, rows: DataFrame) -> dict[str, int]:
    """The columns that rows of earlier batches do not carry, with the batch that brought them."""
    return layout.late(rows.schema) if table.format in _LEAVE_OUT else {}


def newest_batches(spark: SparkSession, target: Target, tables: list[Table]) -> dict[str, int]:
    """The newest batch in the log of each table that has one, from file statistics."""
    found = reading.newest_in(spark, target, "silver", [f"{t.table}_changes" for t in tables])
    return {log.removesuffix("_changes"): newest for log, newest in found.items()}


def positions(part: DataFrame) -> dict[str, int]:
    """The newest ingest batch of each feed in a part of the log."""
    found = part.groupBy("_feed").agg(F.max("_feed_batch").alias("newest")).collect()
    return {row["_feed"]: int(row["newest"]) for row in found}


def summarize(rows: DataFrame) -> Summary:
    """Counts a part of the log in one small job.

    A second one names the columns of partial changes.
    """
    found = _kinds(rows).collect()
    sound = [row for row in found if row["_reason"] is None]
    rejected: dict[str, int] = {}
    for row in found:
        if row["_reason"] is not None:
            rejected[row["_reason"]] = rejected.get(row["_reason"], 0) + row["records"]
    incomplete = _count(row for row in sound if row["incomplete"])
    return Summary(
        records=_count(found),
        changes=_count(row for row in sound if row["_operation"] in (UPSERT, DELETE)),
        truncates=_count(row for row in sound if row["_operation"] == TRUNCATE),
        without_change=_count(row for row in sound if row["_operation"] == NONE),
        incomplete=incomplete,
        heirs=_count(row for row in sound if row["heir"]),
        rejected=rejected,
        sightings=_sightings(row for row in sound if row["_snapshot"] is not None),
        partial=_absent_columns(rows) if incomplete else [],
        oldest=min((row["oldest"] for row in sound if row["oldest"] is not None), default=None),
    )


def _kinds(rows: DataFrame) -> DataFrame:
    """One row per kind of record; those of a full snapshot apart by snapshot and domain.

    The set among the aggregates lets Spark hash by kind: for text alone it would sort all rows.
    """
    shows = F.col("_snapshot").isNotNull() & F.col("_reason").isNull()
    incomplete = F.col("_absent").isNotNull()
    kinds = {
        "_operation": F.col("_operation"),
        "_reason": F.col("_reason"),
        "_snapshot": F.when(shows, F.col("_snapshot")),
        "domain": F.when(shows, domain()),
        "incomplete": incomplete,
        "heir": incomplete & F.col("_old_key").isNotNull(),
    }
    return rows.groupBy(*[kind.alias(name) for name, kind in kinds.items()]).agg(
        F.count(F.lit(1)).alias("records"),
        F.min(F.when(shows, position())).alias("first_position"),
        F.array_contains(F.collect_set("_snapshot_last"), True).alias("complete"),
        F.min(F.unix_micros("_source_time")).alias("started"),
        F.min("_sequence").alias("oldest"),
    )


def _count(rows: Iterable[Row]) -> int:
    return sum(row["records"] for row in rows)


def _sightings(rows: Iterable[Row]) -> list[Sighting]:
    """The snapshots by domain; rows of one that differ in kind are put together."""
    found: dict[tuple[str, str], Sighting] = {}
    for r in rows:
        seen = (r["_snapshot"], r["domain"], r["first_position"], r["complete"], r["started"])
        known = found.get(seen[:2])
        found[seen[:2]] = Sighting(*seen) if known is None else known.joined(Sighting(*seen))
    return list(found.values())


def _absent_columns(rows: DataFrame) -> list[str]:
    absent = rows.where("_reason IS NULL").select(F.explode("_absent").alias("column")).distinct()
    return sorted(row["column"] for row in absent.collect())


def reasons(rows: DataFrame) -> dict[str, int]:
    """Rejected rows counted by reason."""
    found = rows.groupBy("_reason").count().collect()
    return {row["_reason"]: row["count"] for row in found}
