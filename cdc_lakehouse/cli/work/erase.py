"""`erase`: one key removed from every layer, and the check that it is gone."""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bronze.contract import feed_name
from bronze.files.listing import on_disk
from cdc_lakehouse.cli.ask.status_records import keep_status
from cdc_lakehouse.cli.front import check_lake, choose_one, command, load_whole_conf, open_lake
from cdc_lakehouse.cli.key_text import parse_key
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.locking import hold_all_layers
from cdc_lakehouse.cli.work.rounds import Round, do_layer, fail_at_the_end, whole_groups
from cdc_lakehouse.terminal.console import make_line_printer, show_progress, warn
from lakehouse.config.table import Table
from lakehouse.errors import EraseIncomplete
from lakehouse.places.place import Place, to_place
from lakehouse.run import ledger
from lakehouse.spark.failures import TABLE_FAILURES
from lakehouse.storage.lake import Lake
from lakehouse.words import render_count

if TYPE_CHECKING:
    from silver.maintenance.erase import KeyTraces
    from silver.state.table_state import TableState

Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table that has the key.")]
KeyText = Annotated[str, typer.Option("--key", help='JSON object of the key, as {"id": 7}.')]
Landing = Annotated[
    bool, typer.Option("--landing", help="Delete the dropped files that brought it, too.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would be removed, and from where.")
]


class Erasure(NamedTuple):
    """What is erased and how: the key, whether its dropped files go too, and what prints lines.

    `agrees` is asked before dropped files are deleted, as these hold other keys as well.
    """

    table: Table
    key: Mapping[str, str | None]
    landing: bool
    tell: Callable[[str], None]
    agrees: Callable[[Sequence[str]], bool] = bool

    @property
    def run_id(self) -> str:
        """Name in the ledger: a digest, so the same for a repeated erasure, and without a value."""
        text = json.dumps([self.table.table, dict(self.key)], sort_keys=True)
        return f"erase-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    def say(self, line: str) -> None:
        """Prints a line about the table."""
        self.tell(f"{self.table.table}: {line}")


@command("erase")
def erase(
    chosen: Chosen, table: Name, key: KeyText, landing: Landing = False, dry_run: DryRun = False
) -> None:
    """Remove one key of TABLE from all layers; check what is left.

    Its records go from bronze, the change log, rows, history and dead letters, and with them every
    older version of these tables. Then every file below the lake is searched for the texts that
    only this key had; where one is found is named, and the exit code is 1. Numbers and short texts
    are not searched for, and in a catalog no files are searched. Dropped files that hold its
    records are named, and deleted with --landing, with all other keys in them: on a terminal you
    are asked first. The erasure stays incomplete, with exit code 1, until these files are gone. The
    command can be repeated at any time.
    """
    target, (one,), tables = load_whole_conf(choose_one(chosen, table))
    wanted = Erasure(one, parse_key(key, one), landing, make_line_printer(target), _ask_consent)
    check_lake(target)
    if dry_run:
        preview_erasure(open_lake(target, [one], asks=chosen), wanted, tables)
        return
    with hold_all_layers(target, whole_groups([one], tables), wanted.run_id):
        lake = open_lake(target, [one], sends_functions=True)
        with tell_to_repeat(wanted):
            complete = erase_key(lake, wanted, tables)
        keep_status(lake, tables, whole_groups([one], tables))
    if not complete:
        raise SystemExit(EraseIncomplete.exit_code)


@contextmanager
def tell_to_repeat(wanted: Erasure) -> Iterator[None]:
    """Within, a warning before a failure says that only the same command ends the erasure."""
    try:
        yield
    except TABLE_FAILURES as failure:
        if not isinstance(failure, EraseIncomplete | typer.Abort):  # the first says so itself
            action = "repeat the command, nothing else ends it"
            warn(f"{wanted.table.table}: the erasure is not complete; do: {action}")
        raise


def _ask_consent(files: Sequence[str]) -> bool:
    """Whether dropped files may go; a program is not asked."""
    if not (files and sys.stdin.isatty()):
        return True
    shown = "".join(f"\n  {file}" for file in files)
    return typer.confirm(f"Delete with all other keys in them?{shown}\n")


def preview_erasure(lake: Lake, wanted: Erasure, tables: Iterable[Table]) -> None:
    """Prints what bronze, silver and the landing folders hold of the key now."""
    from bronze.erasure import erase as bronze
    from silver.maintenance import erase

    with show_progress("looking for the key"):
        hits = erase.find_records(lake, wanted.table, wanted.key)
        arrivals = hits.arrivals if hits else None
        read = bronze.find_dropped_files(lake, wanted.table, arrivals)
        files = _find_dropped_files(lake, wanted, hits.values if hits else [], read)
    if hits is None:
        wanted.say("holds nothing yet")
    else:
        _print_hits(wanted, hits, tables)
    for file in files:
        would = "would be deleted, with all other keys in it" if wanted.landing else "holds the key"
        wanted.say(f"{file} {would}")
    wanted.say("nothing was removed")


def erase_key(lake: Lake, wanted: Erasure, tables: list[Table]) -> bool:
    """Ingests and decodes what is new, removes the key layer by layer, publishes and verifies.

    Returns whether nothing of the key was found afterwards.

    A dropped file is only deleted once bronze has its records, as it holds other keys as well. An
    unfinished rebuild of the table holds the key as well, and is dropped. Before rows go the ledger
    records it, with the dropped files, so that these are known and gold's published table is
    compared with silver's even after a kill; its change feed begins anew.

    Raises:
        EraseIncomplete: something of the key is left.
        ManyTablesFailed: the table could not be brought up to bronze first.
        TableFailed: records of the key wait for their transaction.
    """
    from bronze.erasure import erase as bronze
    from silver.groups import group_repairs
    from silver.maintenance import erase, rebuild
    from silver.run import SilverTable
    from silver.state.table_state import TableState, read_states

    table = wanted.table
    present = set(bronze.list_landing_files(lake.target, table))
    _take_in(lake, wanted, tables, bool(present))
    rebuild.abandon_rebuilds(lake, table)
    with show_progress("looking for the key"):
        hits = erase.find_records(lake, table, wanted.key)
    if hits is None:
        wanted.say("holds nothing yet")
        return True
    silver_table, states = SilverTable(lake, table), read_states(lake)
    state = states.get(table.table, TableState()).with_replaced()
    group_repairs.refuse_waiting_records(silver_table, state, hits.arrivals)
    _print_hits(wanted, hits, tables)
    read = bronze.find_dropped_files(lake, table, hits.arrivals)
    dropped = _find_dropped_files(lake, wanted, hits.values, read)
    if wanted.landing and dropped and not wanted.agrees([str(file) for file in dropped]):
        raise typer.Abort
    if read or table.publish == "table":
        begun = state.begun(wanted.run_id, table.table)
        ledger.append_entries(lake, [bronze.note_files(begun, read)])
    _remove_records(lake, wanted, hits, read)
    for file in dropped if wanted.landing else ():
        if file in present and file.is_file():
            file.unlink()
    state = group_repairs.pin_current(silver_table, states, state)
    _record_erasure(lake, wanted, hits.records, state)
    _publish_gold(lake, wanted, tables)
    return verify_erasure(lake, wanted, hits.values)


def _publish_gold(lake: Lake, wanted: Erasure, tables: list[Table]) -> None:
    """Publishes gold of the table and its group; older versions of published tables go."""
    from gold.job import publish
    from gold.published import published_names

    group = whole_groups([wanted.table], tables)
    with show_progress("publishing") as note:
        fail_at_the_end(publish(lake, group, wanted.run_id, note))
    for name in published_names(lake, wanted.table):
        # The log of a published table holds no statistics, and says which batch is published.
        _forget_past(lake, wanted, name, with_log=False)


def _take_in(lake: Lake, wanted: Erasure, tables: list[Table], has_files: bool) -> None:
    """Ingests new files if there are any, and applies all that bronze has of the table's group."""
    from silver import job

    group = whole_groups([wanted.table], tables)
    with show_progress("taking in what is new") as note:
        if has_files:
            given = Round(lake, wanted.run_id)
            fail_at_the_end(do_layer(given, group, "bronze", note))
        fail_at_the_end(job.apply_all(lake, group, wanted.run_id, note))


def verify_erasure(lake: Lake, wanted: Erasure, values: list[str]) -> bool:
    """Looks for the key in the tables, the files of the lake and the dropped files.

    Without --landing a dropped file that holds the key is no failure, but leaves the erasure
    incomplete.

    Raises:
        EraseIncomplete: naming where something is left.
    """
    from lakehouse.storage.traces import find_traces
    from silver.maintenance import erase

    with show_progress("looking for what is left"):
        left = erase.list_leftovers(lake, wanted.table, wanted.key)
        if not lake.target.catalog:
            traces = find_traces(to_place(lake.target, lake.target.lake), values)
            left += [f"{trace.file} ({trace.places} places)" for trace in traces]
        dropped = [str(file) for file in _find_dropped_files(lake, wanted, values)]
    if left or (dropped and wanted.landing):
        raise EraseIncomplete(wanted.table.table, [*left, *dropped])
    where = (
        "the tables"
        if lake.target.catalog
        else f"the tables and the files below {lake.target.lake}"
    )
    if dropped:
        for file in dropped:
            wanted.say(f"the key's records lie in {file}")
        files = render_count(len(dropped), "dropped file")
        wanted.say(f"erased from {where}; incomplete: the key is still in {files}")
        wanted.say("do: repeat the command with --landing, which deletes these files,")
        wanted.say("with the records of all other keys that are in them")
        return False
    wanted.say(f"gone: no row of the key and none of its {len(values)} own texts in {where}")
    return True


def _find_dropped_files(
    lake: Lake, wanted: Erasure, values: list[str], read: Iterable[str] = ()
) -> list[Place]:
    """The dropped files of the key that are there, sorted.

    Those that bronze `read`, those that this or an earlier erasure noted, and those that hold one
    of the key's own texts (`values`).
    """
    from bronze.erasure import erase as bronze
    from lakehouse.storage.traces import find_traces

    files = set(bronze.find_noted_files(lake, wanted.table, wanted.run_id))
    files |= {place for file in read if (place := to_place(lake.target, on_disk(file))).is_file()}
    for folder in bronze.find_landing_folders(lake.target, wanted.table):
        files |= {to_place(lake.target, trace.file) for trace in find_traces(folder, values)}
    return sorted(files, key=str)


def _print_hits(wanted: Erasure, hits: "KeyTraces", tables: Iterable[Table]) -> None:
    wanted.say(f"{render_count(hits.records, 'record')} of the key")
    if hits.key_changes:
        wanted.say(
            f"{hits.key_changes} records show that their row had this key before: erase its new"
        )
        wanted.say("key as well where it is the same person's")
    others = [table for table in tables if table.table != wanted.table.table]
    own_topics = _list_topics(wanted.table)
    sharing = [table.table for table in others if own_topics & _list_topics(table)]
    if sharing:
        wanted.say(f"{', '.join(sharing)} read the same records: erase the key there as well")


def _list_topics(table: Table) -> set[tuple[str, str | None]]:
    """The feeds and topics whose records a table reads."""
    return {(feed_name(table, source), source.topic) for source in table.feeds}


def _remove_records(lake: Lake, wanted: Erasure, hits: "KeyTraces", files: Sequence[str]) -> None:
    """Removes records, rows, versions, dead letters; last the log, which lists these records.

    `files` are the dropped files of the records.
    """
    from bronze.erasure import erase as bronze
    from lakehouse.storage.traces import build_pattern
    from lakehouse.storage.upkeep import forget_the_past
    from silver.maintenance import erase as silver
    from silver.maintenance.upkeep import of_table

    feeds = bronze.feeds_of(lake, wanted.table)
    for file in files:
        if wanted.landing:
            wanted.say(f"deletes {file}")
        elif not to_place(lake.target, on_disk(file)).is_file():
            wanted.say(f"its records also lie in {file}, which is not found from here")
    removed = bronze.remove_records(lake, feeds, hits.arrivals)
    if hits.values:
        removed += bronze.remove_unclaimed(lake, wanted.table, build_pattern(hits.values))
    rows = silver.remove_rows(lake, wanted.table, wanted.key, hits)
    log = silver.log_name(lake.target, wanted.table)
    of_bronze = [lake.name("bronze", feed) for feed in feeds]
    of_silver = [name for name in of_table(lake, wanted.table) if name != log]
    for name in (*of_bronze, *of_silver):
        _forget_past(lake, wanted, name)
    silver.remove_log(lake, wanted.table, hits)
    forget_the_past(lake, log)
    bronze_records, others = render_count(removed, "record"), render_count(rows, "row")
    wanted.say(f"removed {bronze_records} of bronze, {others} and dead letters of silver")
    for file in files if wanted.landing else ():
        path = to_place(lake.target, on_disk(file))
        if path.is_file():
            path.unlink()
        else:
            wanted.say(f"not found from here, delete it where it lies: {file}")


def _forget_past(lake: Lake, wanted: Erasure, name: str, with_log: bool = True) -> None:
    from lakehouse.storage.upkeep import forget_the_past

    wanted.say(f"rewriting {name} and deleting its older versions")
    forget_the_past(lake, name, with_log)


def _record_erasure(lake: Lake, wanted: Erasure, record_count: int, state: "TableState") -> None:
    """Writes one ledger entry, without a value of the key; none where nothing has changed."""
    if record_count or state.group is not None:
        now, counts = datetime.now(timezone.utc), {"erased": record_count} if record_count else {}
        entry = ledger.make_entry(wanted.run_id, "silver", wanted.table.table, now)
        done = entry.with_counts(counts, state.batch, state.positions)
        ledger.append_entries(lake, [done.model_copy(update={"state": state.to_text()})])
