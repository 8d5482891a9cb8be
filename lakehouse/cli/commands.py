"""Every command of `lakehouse`, registered with its application."""

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

__all__ = [
    "app",
    "ask",
    "check",
    "dead_letters",
    "demo",
    "enter",
    "erase",
    "explain",
    "init",
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
