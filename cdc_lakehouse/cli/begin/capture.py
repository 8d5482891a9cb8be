"""`capture`: changes of a database into landing files, without Kafka."""

import os
import sys
import traceback
from typing import Annotated

import typer

from cdc_lakehouse.cli.front import command
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.continuous import stop_on_signal
from cdc_lakehouse.terminal.console import show_error, wrap_line
from lakehouse.errors import ConfigurationError, LakehouseError

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
    from cdc_lakehouse.capture.session import Capture

    if sum((once or snapshot, check, drop)) > 1:
        expected = "one of --once or --snapshot, --check, --drop"
        raise ConfigurationError("command line", "--check", "several", expected, "leave one out")
    if chosen.only:
        expected, action = "no --table", "name tables in conf/capture.yml: `tables`, `except`"
        raise ConfigurationError("command line", "--table", chosen.only[0], expected, action)
    work = Capture(chosen)
    name, database, code = work.settings.name, work.database, 0
    if check:
        work.check()
        ready = f"{name}: the database is ready: {', '.join(database.captured)}"
        print("\n".join(wrap_line(ready)))
        return
    if drop:
        question = f"Remove all that capture made in the database for {name}?"
        if not yes and not typer.confirm(question):
            raise typer.Abort
        print(f"removed: {', '.join(work.drop()) or 'nothing was there'}")
        return
    try:
        with stop_on_signal() as stop:
            work.run(once, snapshot, stop)
    except Exception as failure:  # as the interpreter would, whose orderly end Java's threads break
        is_told = isinstance(failure, LakehouseError) and not chosen.debug
        show_error(str(failure) if is_told else traceback.format_exc())
        code = getattr(failure, "exit_code", 1)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
