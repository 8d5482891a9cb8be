"""What is about a whole table: full snapshots and truncates, kept in `silver._table_changes`.

A full snapshot is a truncate at the start of its epoch that comes in force when its last row has
arrived. That the stream went on shows nothing: a connector that is restarted in a blocking snapshot
goes on without it (Debezium, DBZ-9055), and what such a snapshot does not show may well be there.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.target import Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from lakehouse.storage.writing import alone, append
from silver.contract import TRUNCATE
from silver.fold.rules import Cutoff
from silver.state.epochs import Epoch, Sighting, number
from silver.storage import layout
from silver.storage.side_columns import SNAPSHOT_COLUMNS

TABLE_CHANGES = "_table_changes"


class TableChanges(NamedTuple):
    """Everything known of a table's snapshots and truncates."""

    sightings: list[Sighting]
    truncates: list[Cutoff]

    @property
    def epochs(self) -> list[Epoch]:
        """The table's full snapshots in order."""
        return number(self.sightings)

    def cutoffs(self, apply_truncates: bool) -> list[Cutoff]:
        """The cut-offs of complete full snapshots, and truncate points; oldest first."""
        of_snapshots = [Cutoff(e.cutoff, e.started) for e in self.epochs if e.complete]
        known = [*of_snapshots, *(self.truncates if apply_truncates else [])]
        return sorted(known, key=lambda each: each.order)


Batches = list[tuple[int, TableChanges]]


def read(spark: SparkSession, target: Target) -> dict[str, TableChanges]:
    """What earlier batches showed of the snapshots and truncates of every table."""
    found: dict[str, TableChanges] = {}
    if not names.exists(spark, target, "silver", TABLE_CHANGES):
        return found
    name = names.name(target, "silver", TABLE_CHANGES)
    for r in spark.table(name).withColumn("at", F.unix_micros("at")).collect():
        known = found.setdefault(r["table"], TableChanges([], []))
        if r["order"] is not None:
            known.truncates.append(Cutoff(bytes(r["order"]), r["at"]))
            continue
        seen = (r["snapshot"], r["domain"], r["first_position"], r["complete"], r["started"])
        known.sightings.append(Sighting(*seen))
    return found


def truncates(ordered: DataFrame) -> list[Cutoff]:
    """The truncate points in a part of the log that has order keys."""
    found = ordered.where(F.col("_operation") == TRUNCATE)
    rows = found.select("_order", F.unix_micros("_source_time").alias("at")).collect()
    return [Cutoff(bytes(r["_order"]), r["at"]) for r in rows]


def record(spark: SparkSession, target: Target, new: Mapping[str, Batches]) -> None:
    """Adds what batches showed, by table; a batch applied again adds nothing in effect."""
    rows = [
        row | {"table": table, "batch": batch}
        for table, batches in new.items()
        for batch, found in batches
        for row in _rows(found)
    ]
    if not rows:
        return
    layout.ensure(spark, target, TABLE_CHANGES, [], SNAPSHOT_COLUMNS)
    typed = [f"{c.name} {c.type}" for c in SNAPSHOT_COLUMNS if c.name not in ("order", "at")]
    found = local_rows(spark, rows, ", ".join([*typed, "hex string", "us bigint"]))
    orders = {"order": F.unhex("hex"), "at": F.timestamp_micros("us")}
    append(spark, target, "silver", TABLE_CHANGES, found.withColumns(orders).drop("hex", "us"))


def _rows(found: TableChanges) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [s._asdict() for s in found.sightings]
    return rows + [{"hex": t.order.hex(), "us": t.time} for t in found.truncates]


def forget(spark: SparkSession, target: Target, table: str) -> None:
    """Removes a table's truncate points, which a renumbering of the epochs has made void."""
    if not names.exists(spark, target, "silver", TABLE_CHANGES):
        return
    name = names.name(target, "silver", TABLE_CHANGES)
    with alone(target, "silver", TABLE_CHANGES):
        spark.sql(
            f"DELETE FROM {name} WHERE table = {names.literal(table)} AND `order` IS NOT NULL"
        )
