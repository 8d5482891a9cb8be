"""The front door: what people type. The only part of the lakehouse that calls the layers."""

from lakehouse.cli import ask, check, demo, rebootstrap, report, run
from lakehouse.cli.front import app, enter
from lakehouse.cli.run import layer_main

__all__ = ["app", "ask", "check", "demo", "layer_main", "main", "rebootstrap", "report", "run"]


def main() -> None:
    """The console script `lakehouse`: exits 0, 1 (a table failed) or 2 (wrong usage)."""
    enter(app)
