"""The front door: what people type. The only part of the lakehouse that calls the layers."""

from lakehouse.cli import (
    ask,
    check,
    dead_letters,
    demo,
    erase,
    explain,
    init,
    maintain,
    plan,
    quality,
    rebootstrap,
    rebuild,
    replay,
    report,
    run,
    verify,
)
from lakehouse.cli.front import app, enter
from lakehouse.cli.layers import layer_main

__all__ = [
    "app",
    "ask",
    "check",
    "dead_letters",
    "demo",
    "erase",
    "explain",
    "init",
    "layer_main",
    "main",
    "maintain",
    "plan",
    "quality",
    "rebootstrap",
    "rebuild",
    "replay",
    "report",
    "run",
    "verify",
]


def main() -> None:
    """The console script `lakehouse`: exits 0, 1 (a table failed) or 2 (wrong usage)."""
    enter(app)
