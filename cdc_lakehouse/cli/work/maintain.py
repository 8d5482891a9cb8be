"""`maintain`: keeps the tables quick to read and no larger than they need to be."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bronze.files.cleaning import clean_files, held_files
from cdc_lakehouse.cli.ask.status_records import keep_status
from cdc_lakehouse.cli.front import check_lake, command, load_whole_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.locking import hold_all_layers
from cdc_lakehouse.cli.work.rounds import fail_at_the_end, has_news
from cdc_lakehouse.terminal.console import make_line_printer, show_progress
from cdc_lakehouse.terminal.verbosity import Level, current_level
from lakehouse.config.table import Table
from lakehouse.config.target import CleanLanding, Layer
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake
from lakehouse.storage.locks import hold_commit_lock
from lakehouse.words import render_count

if TYPE_CHECKING:
    from lakehouse.storage.upkeep import FileFacts, Layout, Step

Landing = Annotated[bool, typer.Option("--landing", help="Remove landing files that bronze has.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and why.")]
COUNTED = {
    "settle": "table_settings",
    "compact": "tables_compacted",
    "cluster": "tables_clustered",
    "vacuum": "tables_vacuumed",
}


class Upkeep(NamedTuple):
    """One run of the command."""

    lake: Lake
    run_id: str
    dry_run: bool
    tell: Callable[[str], None]


@command("maintain")
def maintain(chosen: Chosen, dry_run: DryRun = False, landing: Landing = False) -> None:
    """Merge pending changes; compact, cluster, purge tombstones and VACUUM where thresholds say so.

    A table is compacted when it has more than 50 deletion vectors, or one in a fifth of its files,
    or more than 20 small files.
    Tombstones go when they are older than tombstone_retention, and older than any change has come
    late. VACUUM keeps what the last 7 days need. Each step has its reason.
    Landing files go with --landing, or where the target's clean_landing says so.
    """
    target, tables, everything = load_whole_conf(chosen)
    if landing and target.clean_landing is None:
        target = target.model_copy(update={"clean_landing": CleanLanding(after=0)})
    check_lake(target)
    with hold_all_layers(target, tables, uuid.uuid4().hex):
        lake = open_lake(target, tables)
        entries = tend_tables(
            lake, tables, dry_run, make_line_printer(target), shared=not chosen.only
        )
        if not dry_run:
            entries += pin_groups(lake, tables)
            keep_status(lake, everything, tables)
    fail_at_the_end(entries)
    if not any(any(entry.counts.values()) for entry in entries):
        print("nothing is due")


def tend_tables(
    lake: Lake, tables: Sequence[Table], dry_run: bool,
    tell: Callable[[str], None], shared: bool = True,
) -> list[Entry]:  # fmt: skip
    """Carries out what is due; one ledger entry per table, and a failure stops no other.

    The entries count what was done. With `dry_run` nothing is done and none is recorded: they count
    what would be. `shared` also tends bronze, and the tables that all of silver shares.
    """
    from bronze.storage import list_feed_tables
    from gold.job import renew_pins
    from lakehouse.storage.upkeep import NO_LAYOUT
    from silver.maintenance.upkeep import of_all

    work = Upkeep(lake, uuid.uuid4().hex, dry_run, tell)
    if not dry_run:
        for failure in renew_pins(lake, tables):
            tell(failure)
    merged = _merge_pending(work, tables)
    entries = [_tend_safely(work, "silver", t.table, partial(_tend_table, work, t)) for t in tables]
    if shared:
        common = of_all(lake)
        feeds = dict.fromkeys(list_feed_tables(lake, tables), NO_LAYOUT)
        entries.append(_tend_safely(work, "silver", "*", partial(_tend_shared, work, common)))
        entries.append(_tend_safely(work, "bronze", "*", partial(tend_bronze, work, feeds, tables)))
    if not dry_run:
        ledger.append_entries(lake, [*filter(has_news, entries)])
    return [*merged, *entries]


def pin_groups(lake: Lake, tables: Sequence[Table]) -> list[Entry]:
    """Pins what gold shows of consistency groups to versions as maintenance has left them."""
    from gold.job import publish

    grouped = [table for table in tables if table.consistency_group is not None]
    if not grouped:
        return []
    with show_progress("publishing") as note:
        entries = publish(lake, grouped, uuid.uuid4().hex, note)
    ledger.append_entries(lake, [*filter(has_news, entries)])
    return entries


def _merge_pending(work: Upkeep, tables: Sequence[Table]) -> list[Entry]:
    """Merges pending changes; returns the entries of their tables."""
    from silver.job import apply_all
    from silver.state.table_state import TableState, read_states

    states = read_states(work.lake)
    pending = [t for t in tables if states.get(t.table, TableState()).pending]
    would = "would be" if work.dry_run else "are"
    for table in pending:
        number = states[table.table].pending
        work.tell(f"{table.table}: {number:,} pending changes {would} merged")
    if work.dry_run or not pending:
        return []
    with show_progress("merging pending changes") as note:
        return apply_all(work.lake, pending, work.run_id, note)


def _tend_safely(
    work: Upkeep, layer: Layer, table: str, tend_it: Callable[[], dict[str, int]]
) -> Entry:
    """The entry of work that counts what it did, or of its failure."""
    started, counts, message = datetime.now(timezone.utc), dict[str, int](), None
    try:
        counts = tend_it()
    except TABLE_FAILURES as failure:
        message = describe_failure(failure)
    return ledger.make_entry(work.run_id, layer, table, started, message).with_counts(counts)


def _tend_table(work: Upkeep, table: Table) -> dict[str, int]:
    from gold.published import published_names
    from lakehouse.storage.upkeep import NO_LAYOUT
    from silver.maintenance.upkeep import of_table

    counts = _purge_tombstones(work, table)
    published = dict.fromkeys(published_names(work.lake, table), NO_LAYOUT)
    return counts | _tend_files(work, of_table(work.lake, table) | published)


def _purge_tombstones(work: Upkeep, table: Table) -> dict[str, int]:
    from silver.maintenance import tombstones

    with show_progress(f"looking for tombstones of {table.table}"):
        survey = tombstones.survey_tombstones(work.lake, table)
    if survey is None:
        return {}
    work.tell(f"{table.table}: {survey.describe(work.dry_run)}")
    if survey.purged is None:
        return {}
    if not work.dry_run:
        tombstones.purge_tombstones(work.lake, table, survey.purged, work.run_id)
    return {"tombstones_purged": survey.purged.tombstones}


def _tend_shared(work: Upkeep, tables: "Mapping[str, Layout]") -> dict[str, int]:
    """Tends the files of tables to which other runs write; these runs wait meanwhile."""
    with hold_commit_lock(work.lake.target):
        return _tend_files(work, tables)


def tend_bronze(
    work: Upkeep, names: "Mapping[str, Layout]", tables: Sequence[Table]
) -> dict[str, int]:
    """Tends the files of bronze's tables, and cleans landing files that bronze has had for long."""
    counts, clean = _tend_files(work, names), work.lake.target.clean_landing
    if clean is None:
        return counts
    files = held_files(work.lake.target, tables, clean, datetime.now(timezone.utc).timestamp())
    deed = f"moved to {clean.move_to}" if clean.move_to else "deleted"
    would = "would be" if work.dry_run else "are"
    number = render_count(len(files), "file")
    work.tell(f"landing: {number} of bronze, older than {clean.after}, {would} {deed}")
    gone = 0 if work.dry_run else clean_files(work.lake.target, files, clean.move_to)
    return counts | {"landing_files_cleaned": len(files) if work.dry_run else gone}


def _tend_files(work: Upkeep, tables: "Mapping[str, Layout]") -> dict[str, int]:
    from lakehouse.storage import upkeep

    counts: Counter[str] = Counter()
    for name, wanted in tables.items():
        with show_progress("looking at the files of tables"):
            seen = upkeep.read_facts(work.lake.spark, name)
        vectors = render_count(seen.vectors, "deletion vector")
        heading = f"{name}: {render_count(seen.files, 'file')}, {vectors}"
        if current_level() is Level.VERBOSE:
            work.tell(heading)
            heading = ""
        for step in _due_steps(work, name, seen, wanted):
            if heading:
                work.tell(heading)
                heading = ""
            work.tell(f"  {'would ' if work.dry_run else ''}{step.action}: {step.reason}")
            if not work.dry_run:
                with show_progress(step.action):
                    upkeep.carry_out(work.lake.spark, step)
            counts[COUNTED[step.action]] += 1
    return dict(counts)


def _due_steps(work: Upkeep, name: str, seen: "FileFacts", wanted: "Layout") -> "Iterable[Step]":
    """The steps one after the other: whether VACUUM is due is only known after the compaction."""
    from lakehouse.storage import upkeep

    yield from upkeep.plan_layout(name, seen, wanted)
    yield from upkeep.plan_rewrite(name, seen, wanted)
    clean = upkeep.plan_vacuum(name, upkeep.count_unused_files(work.lake.spark, name))
    if clean is not None:
        yield clean
