"""`rebuild`: silver and gold of a table anew from bronze."""

import uuid
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from cdc_lakehouse.cli.ask.status_records import keep_status
from cdc_lakehouse.cli.front import check_lake, choose_one, command, load_whole_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.locking import hold_all_layers
from cdc_lakehouse.cli.work.rounds import Round, fail_at_the_end, whole_groups
from cdc_lakehouse.cli.work.run_lines import run_lines
from cdc_lakehouse.terminal.console import get_width, make_line_printer, say, show_progress
from lakehouse.config.table import Table
from lakehouse.errors import ManyTablesFailed, TableFailed
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake

Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table to build anew.")]
Tell = Callable[[str], None]


@command("rebuild")
def rebuild(chosen: Chosen, table: Name) -> None:
    """Build silver and gold of TABLE anew from bronze, and swap them in at once.

    The table is built beside the live one with its YAML as it is now, so this is also the way to
    change keys, history or order of a table. Readers see the whole old state, then the whole new
    one; in a catalog this holds for each view by itself. Killed at any point it goes on where it
    was when it is started again.
    """
    target, (one,), tables = load_whole_conf(choose_one(chosen, table))
    check_lake(target)
    with hold_all_layers(target, whole_groups([one], tables), uuid.uuid4().hex):
        lake = open_lake(target, [one], sends_functions=True)
        rebuild_table(lake, one, make_line_printer(target, news=True), tables)


def rebuild_renamed(given: Round, tables: Sequence[Table]) -> list[TableFailed]:
    """Builds each table anew whose YAML gives columns new names and changes nothing else.

    Returns the failures, which say how it goes on; a table that fails stays as it was.
    """
    from silver.run import be_silent
    from silver.state.fingerprint import list_renames
    from silver.state.table_state import TableState, read_states

    failures: list[TableFailed] = []
    renamed = [table for table in tables if table.renamed]
    states = read_states(given.lake) if renamed else {}
    for table in renamed:
        renames = list_renames(table, states.get(table.table, TableState()).built)
        if not renames:
            continue
        say(f"{table.table}: {'; '.join(renames)}; the table is built anew from bronze")
        try:
            rebuild_table(given.lake, table, be_silent, given.everything or [table])
        except ManyTablesFailed as several:
            failures += several.failures
        except TableFailed as failed:
            failures.append(failed)
        except TABLE_FAILURES as failure:
            failures.append(TableFailed(f"silver {table.table}", describe_failure(failure)))
    again = "    do: lakehouse run again, or lakehouse rebuild"
    return [TableFailed(each.table, f"{each.message}\n{again} TABLE") for each in failures]


def rebuild_table(lake: Lake, table: Table, tell: Tell, configured: list[Table]) -> None:
    """Builds the table beside the live one, pins gold's views, swaps, publishes; resumes if killed.

    `configured` are all tables, of which gold shows the status.

    Raises:
        TableFailed: the table cannot be built; the live one is as it was.
    """
    from gold.job import publish, renew_pins
    from gold.views.pins import pin_table
    from silver.maintenance import rebuild, swap

    run_id = uuid.uuid4().hex
    with show_progress("looking at earlier rebuilds"):
        ended = swap.end_all(lake, configured)
        if ended.get(table.table) is not None:
            rebuild.abandon_rebuilds(lake, table)
        begun = rebuild.begin_rebuild(lake, table, run_id)
    for name, failure in ended.items():
        tell(f"{name}: {failure or 'ended a swap that was killed'}")
    tell(f"{table.table}: building rebuild {begun.id} beside the live table")
    with show_progress("building") as note:
        entry = rebuild.build_tables(lake, table, begun, run_id, note)
    for line in run_lines([entry], get_width()):
        tell(line)
    together = whole_groups([table], configured)
    for failure in renew_pins(lake, together):
        tell(failure)
    pin_table(lake, table)
    tell(f"{table.table}: swapping it in")
    with show_progress("swapping") as note:
        swap.swap_tables(lake, begun, table)
        entries = publish(lake, together, run_id, note)
        keep_status(lake, configured, together)
    fail_at_the_end(entries)
    tell(f"{table.table}: done")
