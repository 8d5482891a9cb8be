"""Gold's job: publish the views of every table that silver holds, and of the pipeline itself."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from gold import published
from gold.source_check.verified import add_proof, list_verified
from gold.status import stale
from gold.status.pipeline import build_runs_view
from gold.views import empty, extract_views, merged, pins, selects
from gold.views.catalog import columns_of, open_catalog
from gold.views.selects import mask_columns
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake
from lakehouse.storage.past import look_back, renew
from lakehouse.storage.views import View, publish_views
from lakehouse.words import count_off
from silver.contract import PENDING, kept_name

__all__ = ["open_catalog", "publish", "renew_pins"]

Progress = Callable[[str], None]
PINS_LOST = "pins_lost"
"""Counts the tables of a group whose shown version cannot be read: they are shown as they are."""
Kind = Callable[[Table, str, list[str]], View]
Versions = Mapping[str, int | None]


def publish(
    lake: Lake,
    tables: list[Table],
    run_id: str,
    progress: Progress,
) -> list[Entry]:
    """Publishes the views of every table, one ledger entry each; a failure stops no other table.

    Without a catalog the tables' columns are read from Delta's logs, not by a query.
    """
    exists = lake.exists("silver", ledger.TABLE)
    runs = build_runs_view(lake.name("silver", ledger.TABLE) if exists else None)
    entries, shown = list[Entry](), [runs]
    sets, broken = pins.find_shown(lake, tables), set[str]()
    marks = published.read_marks(lake, tables)
    proofs = list_verified(lake.target, [table.table for table in tables])
    for at, table in enumerate(tables, 1):
        progress(count_off(f"gold {table.table}", at, len(tables)))
        started, message, views = datetime.now(timezone.utc), None, list[View]()
        counts, mark = dict[str, int](), marks.get(table.table)
        of_group = sets.get(table.consistency_group or "", pins.NOTHING_SHOWN)
        try:
            views = table_views(lake, table, of_group.versions)
            if mark is not None:
                counts = published.publish_tables(lake, table, views, mark)
            counts |= {PINS_LOST: 1} if of_group.lost else {}
        except TABLE_FAILURES as failure:
            message = describe_failure(failure)
            broken.add(table.consistency_group or "")
        shown += [
            add_proof(view, proofs[view.name]) if view.name == table.table else view
            for view in views
        ]
        entry = ledger.make_entry(run_id, "gold", table.table, started, message)
        entries.append(entry.with_counts(counts, mark.batch if mark and counts else None))
    publish_views(lake, "gold", _drop_broken_groups(shown, tables, broken))
    return entries


def renew_pins(lake: Lake, tables: Sequence[Table]) -> list[str]:
    """Before a write: pins what groups show to versions so young that Delta will read them.

    A version that nobody has replaced for days would be refused as soon as somebody does. So it
    gets a successor with the same rows; meanwhile the view shows the newest version, whichever that
    is. Returns why it failed for a table.
    """
    grouped = [table for table in tables if table.consistency_group is not None]
    sets, failed = pins.find_shown(lake, grouped) if grouped else {}, []
    for table in grouped:
        kept, shown = kept_name(table), sets.get(str(table.consistency_group), pins.NOTHING_SHOWN)
        try:
            if kept in shown.versions and lake.exists("silver", kept):
                _renew_pin(lake, table, shown.versions[kept])
        except TABLE_FAILURES as failure:
            failed.append(f"{table.table}: gold may not be readable meanwhile: {failure}")
    return failed


def _renew_pin(lake: Lake, table: Table, version: int) -> None:
    kept = kept_name(table)
    source = lake.name("silver", kept)
    if not look_back(lake.spark, source, version).is_renewable:
        return
    publish_views(lake, "gold", table_views(lake, table, {kept: None}))
    renew(lake.spark, source)
    young = {kept: pins.newest_version(lake.spark, source)}
    publish_views(lake, "gold", table_views(lake, table, young))


def _drop_broken_groups(shown: list[View], tables: list[Table], broken: set[str]) -> list[View]:
    """The views without those of groups with a failed member: all of these keep their old state."""
    kept = {t.table for t in tables if t.consistency_group in broken}
    return [v for v in shown if v.name.removesuffix("_history") not in kept]


def table_views(lake: Lake, table: Table, versions: Versions | None = None) -> list[View]:
    """The views of one table; before silver has it, views without rows if all columns are declared.

    Those of a consistency group are pinned to the `versions` of its last complete transaction; with
    None for a version they show the newest one.
    """
    file_views = extract_views.build_snapshot_views(lake, table)
    kept = kept_name(table)
    kinds: list[Kind] = [selects.build_current if table.keys else selects.build_keyless]
    if table.stored_as_scd_type == 2:
        kinds = [selects.build_current, selects.build_history]
    if not lake.exists("silver", kept):
        if not table.is_declared:
            return file_views
        views = _build_views(
            lake.target, table, empty.no_rows(table), empty.list_declared(table), kinds
        )
        return [*views, *(file_views or extract_views.build_empty_views(lake.target, table))]
    source = lake.name("silver", kept)
    if table.consistency_group is None:
        return [*_build_ungrouped_views(lake, table, kept, kinds), *file_views]
    if versions is None:
        sets = pins.find_shown(lake, [table])
        versions = sets.get(table.consistency_group, pins.NOTHING_SHOWN).versions
    if kept not in versions:
        return file_views
    version = versions[kept]
    pinned = source if version is None else f"{source} VERSION AS OF {version}"
    there = columns_of(lake, kept, version)
    views = _build_views(lake.target, table, pinned, there, kinds)
    if version is not None:
        views = [view._replace(pinned=(kept, version)) for view in views]
    return [*_without_stale(lake, table, views, source), *file_views]


def _build_ungrouped_views(
    lake: Lake, table: Table, kept: str, kinds: Sequence[Kind]
) -> list[View]:
    """The views of a table in no group, over the silver table `kept` and its pending changes."""
    rows = lake.name("silver", kept)
    there = columns_of(lake, kept)

    def read(source: str) -> list[View]:
        shown = _build_views(lake.target, table, source, there, kinds)
        return _without_stale(lake, table, shown, source)

    applied = read(rows)
    both = merged.build_source(lake, table, kept, there)
    if both is None:
        return applied
    waits = None if lake.target.catalog else f"{table.table}{PENDING}"
    pairs = zip(read(both), applied, strict=True)
    return [view._replace(applied=alone.query, waiting=waits) for view, alone in pairs]


def _build_views(
    target: Target, table: Table, source: str, there: Sequence[str], kinds: Sequence[Kind]
) -> list[View]:
    columns = [c for c in there if not c.startswith("_")]
    source, columns = mask_columns(table, source, columns, target.sensitive)
    return [kind(table, source, columns) for kind in kinds]


def _without_stale(lake: Lake, table: Table, shown: list[View], rows: str) -> list[View]:
    """The views; with `on_stale_key: hide` the current one leaves out the stale keys of `rows`."""
    hide = table.on_stale_key == "hide"
    keys = stale.build_stale_query(lake, table, rows) if hide else None
    if keys is None:
        return shown
    return [stale.hide_stale_keys(v, keys) if v.name == table.table else v for v in shown]
