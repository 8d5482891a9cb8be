"""Puts the tables of a rebuild in place of the live ones, each in one commit of the live table.

Replacing a table's content in a commit (`CREATE OR REPLACE TABLE … AS SELECT`) keeps its name, its
history and the versions that views are pinned to, and is the same on every target; renaming
folders or tables would be none of that, at the price of one copy of the result. Before the swap
gold's views of the table are pinned to the version of now, after it they are published anew at
once, so a reader of gold sees all old or all new. Every step can be repeated: a swap that was
killed is ended by the next command that applies changes. A swap that fails, fails its own table.

A rebuild has silver tables of its own (`lakehouse.config.target.Aside`), a ledger among them. There
stand marks that tell how far the rebuild has come, so one that was killed is found by its tables.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from lakehouse.config.loading import SUFFIXES
from lakehouse.config.table import Table
from lakehouse.config.target import Aside
from lakehouse.places.place import remove_tree, to_place
from lakehouse.run import ledger
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.upkeep import STATISTICS
from silver.groups import group_repairs
from silver.run import SilverTable
from silver.state.table_state import TableState, read_state, read_states
from silver.storage import layout

BUILDING, SWAPPING, DONE = 1, 2, 3
STEP = "rebuild_step"
"""Ledger entries with this count record a step; their message is the configuration's digest."""
OWN = ("", *SUFFIXES)
"""The suffixes of a table's silver tables; most tables have few of them."""
_CLUSTERED_BY = "clusteringColumns"
"""A read-only property of Delta."""
_KEPT_PROPERTIES = {*layout.PROPERTIES, *layout.OF_UPDATED_TABLES, STATISTICS}
"""The properties that a swap sets: those that silver gives its tables. Delta and catalogs write
others, such as the names of columns for row tracking, which no statement may set."""


class Rebuild(NamedTuple):
    """A rebuild and the newest step that it has reached."""

    id: str
    table: str
    configuration: str
    step: int


def open_rebuild(lake: Lake, rebuild: str) -> Lake:
    """The lake whose silver tables are those of the rebuild."""
    return Lake(lake.spark, Aside(**lake.target.model_dump(), rebuild=rebuild))


def digest_of(table: Table) -> str:
    """A digest of a table's configuration."""
    return hashlib.sha256(table.model_dump_json().encode()).hexdigest()[:16]


def list_unfinished(lake: Lake) -> list[Rebuild]:
    """The rebuilds that still have tables and are not done."""
    marked = [_read_rebuild(lake, id) for id in lake.list_rebuilds()]
    return [rebuild for rebuild in marked if rebuild is not None and rebuild.step < DONE]


def record_step(lake: Lake, rebuild: Rebuild, step: int) -> Rebuild:
    """Records that a rebuild has reached a step; returns it with that step."""
    now = datetime.now(timezone.utc)
    entry = ledger.make_entry(rebuild.id, "silver", rebuild.table, now).with_counts({STEP: step})
    noted = entry.model_copy(update={"status": "begun", "message": rebuild.configuration})
    ledger.append_entries(open_rebuild(lake, rebuild.id), [noted])
    return rebuild._replace(step=step)


def _read_rebuild(lake: Lake, rebuild: str) -> Rebuild | None:
    """The rebuild by its recorded steps; None where its tables were being made or dropped."""
    entries = ledger.read_entries(open_rebuild(lake, rebuild))
    marks = entries.where(f"counts['{STEP}'] IS NOT NULL")
    rows = marks.select("table", "message", f"counts.{STEP}").collect()
    newest = max(rows, key=lambda row: int(row[STEP]), default=None)
    if newest is None:
        return None
    return Rebuild(rebuild, newest["table"], newest["message"], int(newest[STEP]))


def swap_tables(lake: Lake, rebuild: Rebuild, table: Table | None = None) -> None:
    """Replaces the table by its rebuild, records it and drops what the rebuild wrote.

    `table` is its configuration, which only a member of a consistency group needs.
    """
    if rebuild.step < SWAPPING:
        rebuild = record_step(lake, rebuild, SWAPPING)
    beside = open_rebuild(lake, rebuild.id)
    _replace_own(lake, beside, rebuild.table)
    _record_swap(lake, beside, rebuild, table)
    record_step(lake, rebuild, DONE)
    drop_rebuild(beside)


def end_all(lake: Lake, tables: Sequence[Table]) -> dict[str, str | None]:
    """Completes the swaps that were killed: by table, why it failed, or None."""
    begun = [rebuild for rebuild in list_unfinished(lake) if rebuild.step == SWAPPING]
    configured = {table.table: table for table in tables}
    ended: dict[str, str | None] = {}
    for rebuild in begun:
        ended[rebuild.table] = None
        try:
            swap_tables(lake, rebuild, configured.get(rebuild.table))
        except TABLE_FAILURES as failure:
            failed = f"its rebuild could not be put in place: {describe_failure(failure)}"
            ended[rebuild.table] = f"{failed}; do: lakehouse rebuild {rebuild.table}"
    return ended


def drop_rebuild(beside: Lake) -> None:
    """Deletes the tables of a rebuild, its ledger last, as a rebuild is found by its ledger."""
    folder = names.table_folder(beside.target, "silver", "")
    for table in sorted(beside.list_tables("silver"), key=lambda name: name == ledger.TABLE):
        if folder is None:
            beside.spark.sql(f"DROP TABLE IF EXISTS {beside.name('silver', table)}")
        else:
            remove_tree(to_place(beside.target, folder, table))
    if folder is not None:
        remove_tree(to_place(beside.target, folder))


def replace_sql(live: str, built: str, properties: Mapping[str, str]) -> str:
    """The statement that replaces a table by another: its rows, columns, properties, clustering."""
    clusters = [name for (name,) in json.loads(properties.get(_CLUSTERED_BY, "[]"))]
    kept = {name: value for name, value in properties.items() if name in _KEPT_PROPERTIES}
    set_as = f" TBLPROPERTIES {names.render_properties(kept)}" if kept else ""
    return (
        f"CREATE OR REPLACE TABLE {live} USING delta{names.render_clustering(clusters)}{set_as}"
        f" AS SELECT * FROM {built}"
    )


def _replace_own(lake: Lake, beside: Lake, table: str) -> None:
    """Replaces each silver table of the table; one that the rebuild does not have is emptied."""
    built = beside.list_tables("silver")
    for name in (f"{table}{suffix}" for suffix in OWN):
        live = lake.name("silver", name)
        if name in built:
            source = beside.name("silver", name)
            shown = lake.spark.sql(f"SHOW TBLPROPERTIES {source}").collect()
            properties = {row["key"]: row["value"] for row in shown}
            lake.spark.sql(replace_sql(live, source, properties))
        elif lake.exists("silver", name):
            lake.spark.sql(f"DELETE FROM {live}")


def _record_swap(lake: Lake, beside: Lake, rebuild: Rebuild, table: Table | None) -> None:
    """Writes one ledger entry with the table's new state and the counts of the rebuild.

    The entry's run is the rebuild, so that a swap that was killed writes it once. Pending records
    are counted with the rebuilt ones. The live table's batches may have passed those of a rebuild
    that was killed: the state takes the number of the newest one.
    """
    is_own = f"run_id = {names.literal(rebuild.id)}"
    if not ledger.read_entries(lake).where(is_own).isEmpty():
        return
    states = read_states(lake)
    live, built = states.get(rebuild.table, TableState()), read_state(beside, rebuild.table)
    counts: dict[str, int] = {"rebuilt": 0}
    for row in ledger.read_entries(beside).where("status = 'ok'").collect():
        counts["rebuilt"] += row["counts"].get("records", 0)
        for met in ("incomplete", "key_changes", "ties"):
            counts[met] = counts.get(met, 0) + row["counts"].get(met, 0)
    if live.pending:
        counts |= {"records": -live.pending, "pending": -live.pending}
    number = max(built.batch, live.batch)
    state = built.replace(batch=number, logged=max(built.logged, live.logged, number))
    if table is not None:
        state = group_repairs.pin_rebuilt(SilverTable(lake, table), states, state)
    entry = ledger.make_entry(rebuild.id, "silver", rebuild.table, datetime.now(timezone.utc))
    ledger.append_entries(lake, [state.done(entry, counts)])
