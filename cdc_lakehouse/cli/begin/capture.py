"""`capture`: changes of a database into landing files, without Kafka."""

import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cdc_lakehouse.cli.front import command
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.continuous import stop_on_signal
from lakehouse.errors import ConfigurationError, LakehouseError

if TYPE_CHECKING:
    from cdc_lakehouse.capture.session import Capture

Once = Annotated[bool, typer.Option("--once", help="Only what is there now, then end.")]
Check = Annotated[bool, typer.Option("--check", help="Only say what the database lacks.")]
Snapshot = Annotated[bool, typer.Option("--snapshot", help="Take all rows again.")]
Drop = Annotated[
    bool, typer.Option("--drop", help="Remove what capture made in the database, after asking.")
]
Yes = Annotated[bool, typer.Option("--yes", help="With --drop: do not ask.")]


@command("capture")
def capture(
    chosen: Chosen,
    once: Once = False,
    check: Check = False,
    snapshot: Snapshot = False,
    drop: Drop = False,
    yes: Yes = False,
) -> None:
    """Capture the tables of conf/capture.yml: all rows first, then every change, until stopped.

    Debezium's engine reads the database's log, and each batch of records is a file in the landing
    folder. The database forgets nothing that is in no file yet: killed at any moment, capture goes
    on where it was. Before it begins it asks the database whether all is ready.
    """
    from cdc_lakehouse.capture.session import open_capture

    if sum((once or snapshot, check, drop)) > 1:
        expected = "one of --once or --snapshot, --check, --drop"
        raise ConfigurationError("command line", "--check", "several", expected, "leave one out")
    if chosen.only:
        expected, action = "no --table", "name tables in conf/capture.yml: `tables`, `except`"
        raise ConfigurationError("command line", "--table", chosen.only[0], expected, action)
    work = open_capture(chosen)
    if check:
        work.check()
        print(f"{work.settings.name}: the database is ready: {', '.join(work.database.captured())}")
    elif drop:
        _drop(work, yes)
    else:
        _leave(partial(_run, work, once, snapshot), chosen.debug)


def _run(work: "Capture", once: bool, snapshot: bool) -> None:
    with stop_on_signal() as stop:
        work.run(once, snapshot, stop)


def _leave(run: Callable[[], None], debug: bool) -> NoReturn:
    """Runs and ends the process at once, as threads of Java would break its orderly end."""
    from cdc_lakehouse.terminal.console import show_error

    code = 0
    try:
        run()
    except LakehouseError as failure:
        show_error("".join(traceback.format_exception(failure)) if debug else str(failure))
        code = failure.exit_code
    except Exception:  # as the interpreter would, whose orderly end is left out
        show_error(traceback.format_exc())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _drop(work: "Capture", yes: bool) -> None:
    """Removes what capture made, if a person says so."""
    question = f"Remove the slot, the publication and the signal table of {work.settings.name}?"
    if not yes and not typer.confirm(question):
        raise typer.Abort
    with work.state.held():
        gone = work.database.drop()
        work.state.forget()
        work.state.remove()
    print(f"removed: {', '.join(gone) or 'nothing was there'}")
