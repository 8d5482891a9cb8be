"""Every command of `lakehouse`, registered with its application."""

from cdc_lakehouse.cli.ask import queries, report
from cdc_lakehouse.cli.begin import demo, init, plan, validate
from cdc_lakehouse.cli.check import dead_letters, doctor, explain, quality, verify
from cdc_lakehouse.cli.front import app, enter
from cdc_lakehouse.cli.work import erase, maintain, rebootstrap, rebuild, run

__all__ = ["COMMANDS", "app", "enter"]

COMMANDS = (
    *(demo, init, validate, plan),
    *(run, rebuild, rebootstrap, maintain, erase),
    *(queries, report),
    *(quality, verify, explain, dead_letters, doctor),
)
"""The modules whose import registers a command."""
