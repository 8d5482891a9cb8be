"""The front door: what people type. The only part of the lakehouse that calls the layers.

What takes long to import is imported once Ctrl-C can be answered.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdc_lakehouse.cli.interrupts import leave_at_once
from cdc_lakehouse.cli.warm import ask

if TYPE_CHECKING:
    from lakehouse.config.target import Layer


def main() -> None:
    """The console script `lakehouse`: exits 0, 1 (a table failed), 2 (wrong usage), 3 or 130."""
    leave_at_once()
    answered = ask()
    if answered is not None:
        sys.exit(answered)
    from cdc_lakehouse.cli.commands import app, enter

    enter(app)


def layer_main(layer: "Layer", arguments: Sequence[str] | None = None) -> None:
    """The console scripts `bronze`, `silver` and `gold`: that one layer of `run`."""
    leave_at_once()
    from cdc_lakehouse.cli.work.run import run_layer

    run_layer(layer, arguments)
