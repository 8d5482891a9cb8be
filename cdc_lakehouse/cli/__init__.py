"""The command line: the only package that calls bronze, silver and gold.

Slow imports come after Ctrl-C has its handler.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.interrupts import exit_silently, leave_at_once

if TYPE_CHECKING:
    from types import ModuleType

    from lakehouse.config.target import Layer

QUESTIONS = ("sql", "status")


def main() -> None:
    """The console script `lakehouse`: exits 0, 1 (a table failed), 2 (wrong usage), 3 or 130."""
    leave_at_once()
    _import_command(next((word for word in sys.argv[1:] if not word.startswith("-")), ""))
    from cdc_lakehouse.cli.front import app, run_command_line

    with exit_silently():
        run_command_line(app)


def _import_command(command: str) -> "ModuleType":
    """Imports the module that registers the command; for a question no others, as they are slow."""
    if command in QUESTIONS:
        from cdc_lakehouse.cli.ask import queries

        return queries
    from cdc_lakehouse.cli import commands

    return commands


def layer_main(layer: "Layer", arguments: Sequence[str] | None = None) -> None:
    """The console scripts `bronze`, `silver` and `gold`: that one layer of `run`."""
    leave_at_once()
    from cdc_lakehouse.cli.work.run import run_layer

    with exit_silently():
        run_layer(layer, arguments)
