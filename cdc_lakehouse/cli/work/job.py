"""`job`: the one task of the bundle's main job, a step that was asked for and then a run."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from cdc_lakehouse.cli.check.dead_letters import replay
from cdc_lakehouse.cli.front import command, load_conf
from cdc_lakehouse.cli.options import Chosen, reading_once
from cdc_lakehouse.cli.work.maintain import maintain
from cdc_lakehouse.cli.work.rebuild import rebuild
from cdc_lakehouse.cli.work.rounds import raise_all
from cdc_lakehouse.cli.work.run import run
from lakehouse.config.loading import select_tables
from lakehouse.errors import ConfigurationError, ManyTablesFailed, TableFailed

StepText = Annotated[
    str, typer.Option("--step", metavar="STEP", help="none, replay, maintain, or rebuild TABLE.")
]


@command("job")
def job(chosen: Chosen, step: StepText = "none") -> None:
    """Do the step that was asked for, if any, and then what `run` does: a job's one task.

    A step that fails keeps nothing from running. The exit code is 1 at the end, with every failure.
    The YAML is that of the beginning: a deploy meanwhile changes the next run.
    """
    failures: list[TableFailed] = []
    with reading_once():
        for work in (_find_step(chosen, step.split()), run):
            try:
                work(**chosen._asdict())
            except TableFailed as failure:
                failures.append(failure)
            except ManyTablesFailed as several:
                failures += several.failures
    raise_all(failures)


def _find_step(chosen: Chosen, words: list[str]) -> Callable[..., None]:
    """The command that does a step.

    Raises:
        ConfigurationError: there is no such step, or it names no table, or an unknown one.
    """
    match words:
        case ["none"]:
            return lambda **_: None
        case ["replay"]:
            return replay
        case ["maintain"]:
            return maintain
        case ["rebuild", table]:
            _, tables = load_conf(chosen._replace(only=()))
            select_tables(tables, [table])
            return partial(rebuild, table=table)
    expected = "none, replay, maintain, or rebuild TABLE"
    action = "name the table: databricks bundle run rebuild --params table=orders"
    action = action if words[:1] == ["rebuild"] else "correct it"
    raise ConfigurationError("command line", "--step", " ".join(words), expected, action)
