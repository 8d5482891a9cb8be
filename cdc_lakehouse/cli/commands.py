"""Every command of `lakehouse`, registered with its application."""

from cdc_lakehouse.cli.ask import export, queries, report, serve, shell
from cdc_lakehouse.cli.begin import bundle, capture, demo, init, plan, validate
from cdc_lakehouse.cli.check import dead_letters, doctor, edit, explain, quality, verify
from cdc_lakehouse.cli.front import app, run_command_line
from cdc_lakehouse.cli.help import TASKS
from cdc_lakehouse.cli.work import erase, job, maintain, rebootstrap, rebuild, run

__all__ = ["COMMANDS", "app", "run_command_line"]

COMMANDS = (
    *(demo, init, bundle, validate, plan, capture),
    *(run, job, rebuild, rebootstrap, maintain, erase),
    *(queries, shell, serve, report, export),
    *(quality, verify, explain, dead_letters, edit, doctor),
)
"""The modules whose import registers a command."""
_ORDER = [name for names in TASKS.values() for name in names]
app.registered_commands.sort(key=lambda command: _ORDER.index(command.name or ""))
