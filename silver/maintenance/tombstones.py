"""Purges the tombstones that no change can need any more.

A tombstone is kept for `tombstone_retention` after its delete, in source time against the table's
watermark, and at least for as long as any change has been late, i.e. came after newer ones were
applied. The limit is recorded first, as the table's horizon.
"""

from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.durations import to_seconds
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from silver.changelog import late_changes, log
from silver.contract import DELETE, UPSERT
from silver.run import SilverTable
from silver.state.table_state import read_state

PURGE_SHARE = 0.01


class Purged(NamedTuple):
    """How many tombstones a run purges, and up to which source time (µs since 1970)."""

    horizon: int
    tombstones: int


class Tombstones(NamedTuple):
    """The current table's rows, its tombstones up to the horizon, and how that is computed.

    `watermark` is the newest source time, never a future one; `lateness` is how late a change has
    come; both and `horizon` in µs, None where the source gives no times.
    """

    rows: int
    purgeable: int
    watermark: int | None
    lateness: int
    horizon: int | None

    @property
    def purged(self) -> Purged | None:
        """What a purge would delete; None below a hundredth of the table's rows."""
        if self.horizon is None or not self.purgeable:
            return None
        if self.purgeable < self.rows * PURGE_SHARE:
            return None
        return Purged(self.horizon, self.purgeable)

    def describe(self, dry_run: bool) -> str:
        """One line for a person: what is purged or not, and why."""
        if self.horizon is None:
            return "no tombstones purged: the source gives no times"
        until = datetime.fromtimestamp(self.horizon / 1_000_000, timezone.utc)
        why = f"{self.purgeable} of {self.rows} rows are tombstones from before {until:%F %T}"
        if self.lateness:
            why += f" (changes have come {timedelta(microseconds=self.lateness)} late)"
        if self.purged is None:
            return f"no tombstones purged: {why}, less than {PURGE_SHARE:.0%}"
        return f"tombstones {'would be ' if dry_run else ''}purged: {why}"


def survey_tombstones(lake: Lake, config: Table) -> Tombstones | None:
    """What could be purged; None for a table that keeps no tombstones, or does not exist yet."""
    table = SilverTable(lake, config)
    if not (late_changes.keeps_tombstones(config) and table.kept.exists and table.log.exists):
        return None
    watermark, observed = observed_times(table)
    if watermark is None:
        return Tombstones(0, 0, None, observed, None)
    horizon = watermark - max(to_seconds(config.tombstone_retention) * 1_000_000, observed)
    old = F.col("_deleted") & (F.col("_source_time") <= F.timestamp_micros(F.lit(horizon)))
    counted = (
        table.kept.read().agg(F.count(F.lit(1)).alias("rows"), F.count_if(old).alias("old")).first()
    )
    rows, purgeable = (counted["rows"], counted["old"]) if counted else (0, 0)
    return Tombstones(rows, purgeable, watermark, observed, horizon)


def observed_times(table: SilverTable) -> tuple[int | None, int]:
    """The newest commit time of a change, and the longest by which a change came late, in µs.

    A change is late that came after a newer one of an earlier batch. Batches are the table's own,
    over all feeds, and those of each feed, which outlast a rebuild. Repeats and changes that came
    too late count as well: they show how late records may come. A time in the future counts as now.
    """
    kinds = f"_operation IN ('{UPSERT}', '{DELETE}') OR _reason = '{late_changes.TOO_LATE}'"
    timed = log.read_log(table).where(f"_source_time IS NOT NULL AND ({kinds})")
    passes = timed.withColumns({"_line": F.lit(""), "_number": F.col("_batch")})
    arrivals = timed.withColumns({"_line": F.col("_feed"), "_number": F.col("_feed_batch")})
    batches = passes.unionByName(arrivals).groupBy("_line", "_number")
    bounds = batches.agg(
        F.min(F.unix_micros("_source_time")).alias("oldest"),
        F.max(F.unix_micros("_source_time")).alias("newest"),
    )
    newest: dict[str, int] = {}
    longest, now = 0, int(datetime.now(timezone.utc).timestamp() * 1_000_000)
    for row in sorted(bounds.collect(), key=lambda row: (row["_line"], row["_number"])):
        before = newest.get(row["_line"], row["oldest"])
        longest = max(longest, before - row["oldest"])
        newest[row["_line"]] = max(before, row["newest"])
    return min(max(newest.values()), now) if newest else None, longest


def purge_tombstones(lake: Lake, table: Table, purged: Purged, run_id: str) -> None:
    """Records the horizon in the table's state, then deletes the tombstones at or before it.

    A run that is killed in between loses nothing.
    """
    state = read_state(lake, table.table).with_replaced().replace(horizon=purged.horizon)
    ledger.append_entries(lake, [state.begun(run_id, table.table)])
    lake.spark.sql(
        f"DELETE FROM {lake.name('silver', table.table)} WHERE _deleted"
        f" AND _source_time <= timestamp_micros({purged.horizon})"
    )
