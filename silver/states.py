"""What each table has applied: from the run's cache, else from the ledger."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from silver.changelog import late_changes, log, schema_changes
from silver.decode.debezium.events.source_log import from_text
from silver.run import SilverTable
from silver.state import fingerprint, snapshots
from silver.state.batch import TableState
from silver.state.fingerprint import Built
from silver.state.snapshots import TableChanges
from silver.table_result import Outcome


class Known(NamedTuple):
    """What a table has applied; the newest batch of its log, None where that cannot be read."""

    state: TableState
    logged: int | None

    def newest_logged(self, table: SilverTable) -> int:
        """The newest batch of the log; a log that cannot be read fails its own table here."""
        if self.logged is not None:
            return self.logged
        return log.newest(table.spark, table.target, table.config)


def known_of(
    spark: SparkSession, target: Target, tables: Sequence[Table], memory: Memory
) -> dict[str, Known]:
    """What is known of each table, which the memory forgets until it is kept again.

    Of those that it does not hold the lake is asked, one question for all; what their last batches
    showed is forgotten.
    """
    found: dict[str, Known] = {
        t.table: memory.tables.pop(t.table) for t in tables if t.table in memory.tables
    }
    asked = [table for table in tables if table.table not in found]
    for table in asked:
        memory.shown.pop(table.table, None)
    if not asked:
        return found
    seen, remembered = applied(spark, target), fingerprint.read(spark, target)
    schema_changes.ensure(spark, target)
    logged = log.newest_of(spark, target, asked)
    for name in (table.table for table in asked):
        own = seen.get(name, TableState())._replace(built=Built(remembered.get(name)))
        found[name] = Known(own, logged[name])
    return found


def keep(
    memory: Memory,
    tables: Sequence[Table],
    before: Mapping[str, Known],
    outcomes: Sequence[Outcome],
) -> None:
    """Keeps what the tables have applied now, as the ledger would tell it.

    But for those that failed, that go day by day, or that showed something at large.
    """
    by_day = {table.table for table in tables if table.format == "snapshot"}
    for outcome in outcomes:
        name = outcome.entry.table
        large = any(each.recomputed or any(each.whole) for each in outcome.passes)
        if name not in by_day and outcome.entry.status == "ok" and not large:
            seen = _after(before[name].state, outcome.entry)
            if outcome.passes:
                last = outcome.passes[-1].state
                seen = seen._replace(waits=last.waits, highest=last.highest)
            memory.tables[name] = Known(seen, outcome.logged)


def _after(seen: TableState, entry: Entry) -> TableState:
    """What a table has applied after an entry, by the rules of `applied`."""
    counts, pending = entry.counts, entry.counts.get("pending", 0)
    began = int(entry.started_at.timestamp() * 1_000_000)
    applies = "records" in counts and pending <= 0
    return seen._replace(
        batch=entry.batch or 0,
        positions=entry.positions,
        logs={name: from_text(text) for name, text in entry.logs.items()},
        partial=seen.partial or counts.get("incomplete", 0) > 0,
        heirs=seen.heirs or counts.get("heirs", 0) > 0,
        ties=seen.ties or counts.get("ties", 0) > 0,
        pending=seen.pending + pending,
        applied_at=began if applies else seen.applied_at,
        took=entry.duration_ms / 1000 if applies else seen.took,
    )


def applied(spark: SparkSession, target: Target) -> dict[str, TableState]:
    """What each table has applied, from the ledger and the table-wide changes.

    Raises:
        LakeOutdated: an older version has written the lake.
    """
    fingerprint.refuse_outdated(spark, target)
    whole, late = snapshots.read(spark, target), late_changes.horizons(spark, target)
    runs = ledger.read(spark, target).where("layer = 'silver' AND status = 'ok'")
    pending = F.col("counts")["pending"]
    applies = F.col("counts")["records"].isNotNull() & (F.coalesce(pending, F.lit(0)) <= 0)
    found = runs.groupBy("table").agg(
        F.max("batch").alias("batch"),
        F.max_by("positions", F.struct("batch", "ended_at")).alias("positions"),
        F.max_by("logs", F.when(F.size("logs") > 0, F.struct("batch", "ended_at"))).alias("logs"),
        F.count_if(F.col("counts")["incomplete"] > 0).alias("partial"),
        F.count_if(F.col("counts")["heirs"] > 0).alias("heirs"),
        F.count_if(F.col("counts")["ties"] > 0).alias("ties"),
        F.sum(F.coalesce(pending, F.lit(0))).alias("pending"),
        F.max(F.when(applies, F.unix_micros("started_at"))).alias("applied_at"),
    )
    none = TableChanges([], [])
    seen = {
        r["table"]: TableState(
            int(r["batch"] or 0),
            r["positions"] or {},
            bool(r["partial"]),
            bool(r["heirs"]),
            bool(r["ties"]),
            none,
            logs={name: from_text(text) for name, text in (r["logs"] or {}).items()},
            pending=r["pending"],
            applied_at=r["applied_at"],
        )
        for r in found.collect()
    }
    return {
        table: seen.get(table, TableState())._replace(
            whole=whole.get(table, none), horizon=late.get(table)
        )
        for table in {*seen, *whole, *late}
    }
