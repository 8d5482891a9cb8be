"""Dead letters of a snapshot table tried again: the files of their dates are compared anew.

What a row of a snapshot file changes is decided by comparing the file with the state before it. So
a replay decodes all rows of the dates again under today's configuration, and puts the outcome in
place of the earlier one.
"""

from datetime import datetime, timezone

from pyspark.sql import Column, SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import literal
from silver.changelog import dead_letters, log
from silver.decode.protocols.snapshot_files import day_of_sequence
from silver.run import Run, SilverTable
from silver.snapshot_source.snapshot_run import apply_snapshot_files
from silver.state import fingerprint
from silver.state.table_state import read_state
from silver.storage.statements import execute

IDENTITY = ["_feed", "_arrival"]


def compare_again(
    spark: SparkSession, target: Target, table: Table, wanted: Column, run_id: str
) -> tuple[int, int]:
    """Compares the dates of the wanted dead letters anew; how many were tried, and are resolved."""
    name, started = dead_letters.ensure(spark, target, table), datetime.now(timezone.utc)
    letters = spark.table(name).where("resolved_at IS NULL").where(wanted)
    found = letters.select(*IDENTITY, "_sequence").collect()
    days = {day.effective_date for day in read_state(spark, target, table.table).days}
    asked = {day_of_sequence(row["_sequence"]) for row in found if row["_sequence"]} & days
    if not asked:
        return len(found), 0
    state = read_state(spark, target, table.table)
    fingerprint.check(table, state.built)
    state = state.learned(fingerprint.aspects(table))
    of = SilverTable(Lake(spark, target), table)
    done = apply_snapshot_files(Run(run_id, _be_silent), of, state, state.positions, asked)
    entry = ledger.told(run_id, "silver", table.table, started)
    entry = entry.done(done.counts, done.state.batch, state.positions)
    ledger.append(spark, target, [entry.model_copy(update={"state": done.state.to_text()})])
    good = log.read(spark, target, table).where("_reason IS NULL").select(*IDENTITY)
    text = (
        f"MERGE INTO {name} t USING {{rows}} s ON {dead_letters.SAME} AND t.resolved_at IS NULL"
        " WHEN MATCHED THEN UPDATE SET t.resolved_at = current_timestamp(),"
        f" t.resolved_by = {literal(run_id)}"
    )
    execute(spark, text, letters.select(*IDENTITY).join(good, IDENTITY, "left_semi"))
    left = spark.table(name).where("resolved_at IS NULL").where(wanted).count()
    return len(found), len(found) - left


def _be_silent(_: str) -> None:
    """A replay shows its own progress."""
