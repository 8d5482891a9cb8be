"""Puts the tables of a rebuild in place of the live ones, each in one commit of the live table.

Replacing a table's content in a commit (`CREATE OR REPLACE TABLE … AS SELECT`) keeps its name, its
history and the versions that views are pinned to, and is the same on every target; renaming
folders or tables would be none of that, at the price of one copy of the result. Before the swap
gold's views of the table are pinned to the version of now, after it they are published anew at
once, so a reader of gold sees all old or all new. Every step can be repeated: a swap that was
killed is ended by the next command that applies changes.
"""

import shutil
from datetime import datetime, timezone
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.loading import SUFFIXES
from lakehouse.config.target import Aside, Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage import names
from lakehouse.storage.writing import alone
from silver.changelog.late_changes import HORIZONS
from silver.changelog.schema_changes import DRIFT
from silver.groups import group_repairs
from silver.maintenance import rebuild_steps
from silver.maintenance.rebuild_steps import DONE, REBUILDS, SWAPPING, Rebuild
from silver.state.fingerprint import BUILT
from silver.state.snapshots import TABLE_CHANGES

OWN = ("", *SUFFIXES)
"""What ends the names of a table's own tables; most tables have few of them."""
SHARED = (TABLE_CHANGES, HORIZONS, BUILT, DRIFT)
"""What is kept over all tables and follows from applying changes alone."""
NOT_SWAPPED = (ledger.TABLE, REBUILDS)
_OWN_PROPERTIES = ("delta.columnMapping.maxColumnId", "delta.feature.", "delta.min", "option.")


def swap(spark: SparkSession, target: Target, known: Rebuild, run_id: str) -> None:
    """Replaces the table by its rebuild, records it and drops what the rebuild wrote."""
    if known.step < SWAPPING:
        known = rebuild_steps.note(spark, target, known, SWAPPING, run_id)
    beside = rebuild_steps.aside(target, known.id)
    built = names.listed(spark, beside, "silver")
    if ledger.TABLE in built:
        _replace_own(spark, target, beside, known.table, built)
        _replace_shared(spark, target, beside, known.table, built)
        group_repairs.note(spark, target, beside, known.table)
        _record(spark, target, beside, known)
    rebuild_steps.note(spark, target, known, DONE, run_id)
    drop(spark, beside)


def end_all(spark: SparkSession, target: Target, run_id: str) -> list[str]:
    """Ends the swaps that were killed; returns their tables."""
    begun = [known for known in rebuild_steps.unfinished(spark, target) if known.step == SWAPPING]
    for known in begun:
        swap(spark, target, known, run_id)
    return [known.table for known in begun]


def drop(spark: SparkSession, beside: Aside) -> None:
    """Deletes the tables of a rebuild."""
    folder = names.location(beside, "silver", "")
    if folder is not None:
        shutil.rmtree(Path(folder), ignore_errors=True)
        return
    for table in names.listed(spark, beside, "silver"):
        spark.sql(f"DROP TABLE IF EXISTS {names.name(beside, 'silver', table)}")


def replace_sql(live: str, built: str, properties: dict[str, str]) -> str:
    """The statement that replaces a table by another one: its rows, columns and properties."""
    kept = {k: v for k, v in properties.items() if not k.startswith(_OWN_PROPERTIES)}
    listed = ", ".join(f"{names.literal(k)} = {names.literal(v)}" for k, v in kept.items())
    set_as = f" TBLPROPERTIES ({listed})" if listed else ""
    return f"CREATE OR REPLACE TABLE {live} USING delta{set_as} AS SELECT * FROM {built}"


def _replace_own(
    spark: SparkSession, target: Target, beside: Aside, table: str, built: list[str]
) -> None:
    """The table's own tables; one that the rebuild has no use for is emptied."""
    for name in (f"{table}{suffix}" for suffix in OWN):
        live = names.name(target, "silver", name)
        if name in built:
            source = names.name(beside, "silver", name)
            shown = spark.sql(f"SHOW TBLPROPERTIES {source}").collect()
            properties = {row["key"]: row["value"] for row in shown}
            spark.sql(replace_sql(live, source, properties))
        elif names.exists(spark, target, "silver", name):
            spark.sql(f"DELETE FROM {live}")


def _replace_shared(
    spark: SparkSession, target: Target, beside: Aside, table: str, built: list[str]
) -> None:
    """The table's rows of what silver's job keeps over all tables: those with a column `table`."""
    live = names.listed(spark, target, "silver")
    made = {n for n in built if n.startswith("_") and n not in NOT_SWAPPED}
    for name in sorted(made | {n for n in SHARED if n in live}):
        place = names.name(target, "silver", name)
        source = names.name(beside if name in built else target, "silver", name)
        rows = spark.table(source)
        if "table" not in rows.columns:
            continue
        mine = rows.where(F.col("table") == table) if name in built else rows.limit(0)
        with alone(target, "silver", name):
            if name in live:
                mine.writeTo(place).overwrite(F.col("table") == F.lit(table))
            else:
                spark.sql(replace_sql(place, source, {}))


def _record(spark: SparkSession, target: Target, beside: Aside, known: Rebuild) -> None:
    """One ledger entry: up to where the table is applied now, and what it met on the way.

    Its run is the rebuild, which tells an entry that a killed swap has written already. Records
    that waited to be applied are counted with the rebuilt ones. A rebuild that was killed may have
    been overtaken by the live table's batches: it takes the number of the newest one.
    """
    entries = ledger.read(spark, target)
    if not entries.where(f"run_id = {names.literal(known.id)}").isEmpty():
        return
    rows = ledger.read(spark, beside).where("status = 'ok'").collect()
    newest = max(rows, key=lambda row: (row["batch"], row["ended_at"])).asDict()
    counts: dict[str, int] = {"rebuilt": 0}
    for row in rows:
        counts["rebuilt"] += row["counts"].get("records", 0)
        for met in ("incomplete", "heirs", "ties"):
            counts[met] = counts.get(met, 0) + row["counts"].get(met, 0)
    own_runs = entries.where((F.col("table") == known.table) & (F.col("layer") == "silver"))
    asked = own_runs.agg(F.sum(F.col("counts")["pending"]), F.max("batch"))
    waiting, live = next((row[0], row[1] or 0) for row in asked.collect())
    if waiting:
        counts |= {"records": -waiting, "pending": -waiting}
    now = datetime.now(timezone.utc)
    batch = max(newest["batch"], live)
    own = {
        "run_id": known.id, "counts": counts, "started_at": now, "ended_at": now, "batch": batch
    }  # fmt: skip
    kept = {name: value for name, value in newest.items() if name in Entry.model_fields}
    ledger.append(spark, target, [Entry.model_validate(kept | own)])
