"""The front door: what people type. The only part of the lakehouse that calls the layers.

What takes long to import is imported once Ctrl-C can be answered.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdc_lakehouse.cli.warm import ask
from lakehouse.interrupts import ending, leave_at_once

if TYPE_CHECKING:
    from types import ModuleType

    from lakehouse.config.target import Layer

QUESTIONS = ("sql", "status")


def main() -> None:
    """The console script `lakehouse`: exits 0, 1 (a table failed), 2 (wrong usage), 3 or 130."""
    leave_at_once()
    answered = ask()
    if answered is not None:
        sys.exit(answered)
    _load(next((word for word in sys.argv[1:] if not word.startswith("-")), ""))
    from cdc_lakehouse.cli.front import app, enter

    with ending():
        enter(app)


def _load(command: str) -> "ModuleType":
    """Registers the command: a question alone, as the others take a while to be imported."""
    if command in QUESTIONS:
        from cdc_lakehouse.cli.ask import queries

        return queries
    from cdc_lakehouse.cli import commands

    return commands


def layer_main(layer: "Layer", arguments: Sequence[str] | None = None) -> None:
    """The console scripts `bronze`, `silver` and `gold`: that one layer of `run`."""
    leave_at_once()
    from cdc_lakehouse.cli.work.run import run_layer

    with ending():
        run_layer(layer, arguments)
