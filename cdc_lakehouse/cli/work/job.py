"""`job`: the one task of the bundle's main job, a step that was asked for and then a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cdc_lakehouse.cli.check.dead_letters import replay
from cdc_lakehouse.cli.front import command, configured
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.maintain import maintain
from cdc_lakehouse.cli.work.rebuild import rebuild
from cdc_lakehouse.cli.work.run import raise_all, run
from lakehouse.config.loading import select
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
    first = _step(chosen, step.split())
    with _unchanging(chosen) as fixed:
        for work in (first, run):
            try:
                work(**fixed._asdict())
            except TableFailed as failure:
                failures.append(failure)
            except ManyTablesFailed as several:
                failures += several.failures
    raise_all(failures)


@contextmanager
def _unchanging(chosen: Chosen) -> Iterator[Chosen]:
    """The same options with a copy of the configuration, which no deploy changes."""
    configured(chosen)
    with TemporaryDirectory() as folder:
        for file in (file for file in chosen.conf.rglob("*") if file.is_file()):
            copy = Path(folder, file.relative_to(chosen.conf))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
        yield chosen._replace(conf=Path(folder))


def _step(chosen: Chosen, words: list[str]) -> Callable[..., None]:
    """The command that does a step.

    Raises:
        ConfigurationError: there is no such step, or it names no table, or an unknown one.
    """
    match words:
        case ["none"]:
            return _do_nothing
        case ["replay"]:
            return replay
        case ["maintain"]:
            return maintain
        case ["rebuild", table]:
            _, tables = configured(chosen._replace(only=()))
            select(tables, [table])
            return partial(rebuild, table=table)
    expected = "none, replay, maintain, or rebuild TABLE"
    action = "name the table: databricks bundle run rebuild --params table=orders"
    action = action if words[:1] == ["rebuild"] else "correct it"
    raise ConfigurationError("command line", "--step", " ".join(words), expected, action)


def _do_nothing(**_: object) -> None:
    """The step `none`."""
