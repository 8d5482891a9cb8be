"""What is about a whole table: full snapshots and truncates.

A full snapshot is a truncate at the start of its epoch that comes in force when its last row has
arrived. That the stream went on shows nothing: a connector that is restarted in a blocking snapshot
goes on without it (Debezium, DBZ-9055), and what such a snapshot does not show may well be there.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from silver.contract import TRUNCATE
from silver.fold.rules import Cutoff
from silver.state.epochs import Epoch, Sighting, number


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
        of_snapshots = [Cutoff(e.cutoff, e.started, e.streamed) for e in self.epochs if e.complete]
        known = [*of_snapshots, *(self.truncates if apply_truncates else [])]
        return sorted(known, key=lambda each: each.order)


def truncates(ordered: DataFrame) -> list[Cutoff]:
    """The truncate points in a part of the log that has order keys."""
    found = ordered.where(F.col("_operation") == TRUNCATE)
    rows = found.select("_order", F.unix_micros("_source_time").alias("at")).collect()
    return [Cutoff(bytes(r["_order"]), r["at"]) for r in rows]
