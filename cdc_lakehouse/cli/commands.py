"""Every command of `lakehouse`, registered with its application."""

from cdc_lakehouse.cli.ask import queries, report
from cdc_lakehouse.cli.begin import demo, init, plan, validate
from cdc_lakehouse.cli.check import dead_letters, explain, quality, verify
from cdc_lakehouse.cli.front import app, enter
from cdc_lakehouse.cli.work import erase, maintain, rebootstrap, rebuild, run

__all__ = [
    "app",
    "dead_letters",
    "demo",
    "enter",
    "erase",
    "explain",
    "init",
    "maintain",
    "plan",
    "quality",
    "queries",
    "rebootstrap",
    "rebuild",
    "report",
    "run",
    "validate",
    "verify",
]
