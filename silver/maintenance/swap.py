"""Puts the tables of a rebuild in place of the live ones, each in one commit of the live table.

Replacing a table's content in a commit (`CREATE OR REPLACE TABLE … AS SELECT`) keeps its name, its
history and the versions that views are pinned to, and is the same on every target; renaming
folders or tables would be none of that, at the price of one copy of the result. Before the swap
gold's views of the table are pinned to the version of now, after it they are published anew at
once, so a reader of gold sees all old or all new. Every step can be repeated: a swap that was
killed is ended by the next command that applies changes.

A rebuild has silver tables of its own (`lakehouse.config.target.Aside`), a ledger among them. There
stand marks that tell how far the rebuild has come, so one that was killed is found by its tables.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse.config.loading import SUFFIXES
from lakehouse.config.table import Table
from lakehouse.config.target import Aside, Target
from lakehouse.places.place import place, remove_tree
from lakehouse.run import ledger
from lakehouse.storage import names
from silver.groups import group_repairs
from silver.run import SilverTable
from silver.state.table_state import TableState, read_state, read_states

BUILDING, SWAPPING, DONE = 1, 2, 3
STEP = "rebuild_step"
"""The count of an entry that is a mark. The entry's message is the digest of the configuration."""
OWN = ("", *SUFFIXES)
"""What ends the names of a table's own tables; most tables have few of them."""
_CLUSTERED_BY = "clusteringColumns"
"""A property that Delta shows only."""
_OWN_PROPERTIES = ("delta.columnMapping.maxColumnId", "delta.feature.", "delta.min", "option.")


class Rebuild(NamedTuple):
    """A rebuild and the newest step that it has reached."""

    id: str
    table: str
    configuration: str
    step: int


def to_rebuild_target(target: Target, rebuild: str) -> Aside:
    """The target whose silver tables are those of the rebuild."""
    return Aside(**target.model_dump(), rebuild=rebuild)


def digest_of(table: Table) -> str:
    """What tells one configuration of a table from another."""
    return hashlib.sha256(table.model_dump_json().encode()).hexdigest()[:16]


def list_unfinished(spark: SparkSession, target: Target) -> list[Rebuild]:
    """The rebuilds of which tables are left, but those that are done."""
    marked = [_read_rebuild(spark, target, rebuild) for rebuild in names.rebuilds(spark, target)]
    return [rebuild for rebuild in marked if rebuild is not None and rebuild.step < DONE]


def record_step(spark: SparkSession, target: Target, rebuild: Rebuild, step: int) -> Rebuild:
    """Writes down that a rebuild has reached a step; returns it so."""
    now = datetime.now(timezone.utc)
    entry = ledger.told(rebuild.id, "silver", rebuild.table, now).done({STEP: step})
    noted = entry.model_copy(update={"status": "begun", "message": rebuild.configuration})
    ledger.append(spark, to_rebuild_target(target, rebuild.id), [noted])
    return rebuild._replace(step=step)


def _read_rebuild(spark: SparkSession, target: Target, rebuild: str) -> Rebuild | None:
    """The rebuild by its marks; None where its tables were being made or dropped."""
    entries = ledger.read(spark, to_rebuild_target(target, rebuild))
    marks = entries.where(f"counts['{STEP}'] IS NOT NULL")
    rows = marks.select("table", "message", f"counts.{STEP}").collect()
    newest = max(rows, key=lambda row: int(row[STEP]), default=None)
    if newest is None:
        return None
    return Rebuild(rebuild, newest["table"], newest["message"], int(newest[STEP]))


def swap_tables(
    spark: SparkSession, target: Target, rebuild: Rebuild, table: Table | None = None
) -> None:
    """Replaces the table by its rebuild, records it and drops what the rebuild wrote.

    `table` is its configuration, which only a member of a consistency group needs.
    """
    if rebuild.step < SWAPPING:
        rebuild = record_step(spark, target, rebuild, SWAPPING)
    beside = to_rebuild_target(target, rebuild.id)
    _replace_own(spark, target, beside, rebuild.table)
    _record_swap(spark, target, beside, rebuild, table)
    record_step(spark, target, rebuild, DONE)
    drop_rebuild(spark, beside)


def end_all(spark: SparkSession, target: Target, tables: Sequence[Table]) -> list[str]:
    """Ends the swaps that were killed; returns their tables."""
    begun = [rebuild for rebuild in list_unfinished(spark, target) if rebuild.step == SWAPPING]
    configured = {table.table: table for table in tables}
    for rebuild in begun:
        swap_tables(spark, target, rebuild, configured.get(rebuild.table))
    return [rebuild.table for rebuild in begun]


def drop_rebuild(spark: SparkSession, beside: Aside) -> None:
    """Deletes the tables of a rebuild, its ledger last: a rebuild is found by that."""
    folder = names.location(beside, "silver", "")
    tables = sorted(names.listed(spark, beside, "silver"), key=lambda name: name == ledger.TABLE)
    for table in tables:
        if folder is None:
            spark.sql(f"DROP TABLE IF EXISTS {names.name(beside, 'silver', table)}")
        else:
            remove_tree(place(beside, folder, table))
    if folder is not None:
        remove_tree(place(beside, folder))


def replace_sql(live: str, built: str, properties: Mapping[str, str]) -> str:
    """The statement that replaces a table by another: its rows, columns, properties, clustering."""
    clusters = [name for (name,) in json.loads(properties.get(_CLUSTERED_BY, "[]"))]
    left_out = (*_OWN_PROPERTIES, _CLUSTERED_BY)
    kept = {k: v for k, v in properties.items() if not k.startswith(left_out)}
    set_as = f" TBLPROPERTIES {names.properties(kept)}" if kept else ""
    return (
        f"CREATE OR REPLACE TABLE {live} USING delta{names.clustering(clusters)}{set_as}"
        f" AS SELECT * FROM {built}"
    )


def _replace_own(spark: SparkSession, target: Target, beside: Aside, table: str) -> None:
    """The table's own tables; one that the rebuild has no use for is emptied."""
    built = names.listed(spark, beside, "silver")
    for name in (f"{table}{suffix}" for suffix in OWN):
        live = names.name(target, "silver", name)
        if name in built:
            source = names.name(beside, "silver", name)
            shown = spark.sql(f"SHOW TBLPROPERTIES {source}").collect()
            properties = {row["key"]: row["value"] for row in shown}
            spark.sql(replace_sql(live, source, properties))
        elif names.exists(spark, target, "silver", name):
            spark.sql(f"DELETE FROM {live}")


def _record_swap(
    spark: SparkSession, target: Target, beside: Aside, rebuild: Rebuild, table: Table | None
) -> None:
    """One ledger entry: what is known of the table now, and what it met on the way.

    Its run is the rebuild, which tells an entry that a killed swap has written already. Records
    that waited to be merged are counted with the rebuilt ones. A rebuild that was killed may have
    been overtaken by the live table's batches: it takes the number of the newest one.
    """
    if not ledger.read(spark, target).where(f"run_id = {names.literal(rebuild.id)}").isEmpty():
        return
    states = read_states(spark, target)
    live, built = states.get(rebuild.table, TableState()), read_state(spark, beside, rebuild.table)
    counts: dict[str, int] = {"rebuilt": 0}
    for row in ledger.read(spark, beside).where("status = 'ok'").collect():
        counts["rebuilt"] += row["counts"].get("records", 0)
        for met in ("incomplete", "heirs", "ties"):
            counts[met] = counts.get(met, 0) + row["counts"].get(met, 0)
    if live.pending:
        counts |= {"records": -live.pending, "pending": -live.pending}
    number = max(built.batch, live.batch)
    state = built.replace(batch=number, logged=max(built.logged, live.logged, number))
    if table is not None:
        state = group_repairs.with_rebuilt(SilverTable.at(spark, target, table), states, state)
    entry = ledger.told(rebuild.id, "silver", rebuild.table, datetime.now(timezone.utc))
    ledger.append(spark, target, [state.done(entry, counts)])
