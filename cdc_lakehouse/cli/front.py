"""The application that commands register with, and what every one of them does first."""

import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, NoReturn, ParamSpec

import typer

from cdc_lakehouse.cli.help import find_task, join_lines, render_examples
from cdc_lakehouse.cli.options import Chosen, load_chosen, options_of, with_common_options
from cdc_lakehouse.terminal.console import current_step, show_error, show_progress, warn
from cdc_lakehouse.terminal.verbosity import set_level
from lakehouse.config.loading import select_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError, Interrupted, LakehouseError, SparkUnavailable
from lakehouse.interrupts import raise_again, was_pressed
from lakehouse.places.place import to_place
from lakehouse.places.settings import is_reached
from lakehouse.remedies import find_remedy, install_extra, java_ended
from lakehouse.spark.failures import shorten_failure
from lakehouse.spark.server import connect_to_server, find_server, has_own_spark, spawn_server
from lakehouse.storage.lake import Lake
from silver.expectations.problems import find_problems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_lakehouse.drafts.topic_notes import Search

Given = ParamSpec("Given")
IDLE = "10m"
"""How long a server that a command started waits for the next question."""

WITH_SPARK = (
    f"{install_extra('local')} for a Spark of this machine, 'cdc-lakehouse[databricks]' "
    "for that of a workspace, or run it as a job of the bundle"
)


def make_application(help_text: str, completion: bool = False) -> typer.Typer:
    """An application whose usage errors are plain text on stderr with exit code 2."""
    return typer.Typer(
        help=help_text,
        add_completion=completion,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )


USAGE_ERROR: Any = typer.BadParameter.__base__
"""What Typer raises of wrong usage: a class that is not part of its public API."""

app = make_application("Change data capture on Delta: bronze, silver, gold.", completion=True)


def show_version(wanted: bool) -> None:
    """Print the version and leave, where it is wanted."""
    if wanted:
        print(f"lakehouse {version('cdc-lakehouse')}")
        raise typer.Exit


@app.callback(epilog="COMMAND --help shows a command's options and examples.")
def set_common_options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=show_version, help="Show the version."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Answers, warnings, errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="A line per table and layer.")] = False,
) -> None:
    """Change data capture on Delta: bronze, silver, gold."""
    set_level(quiet, verbose)


def add_group(name: str, help_text: str) -> typer.Typer:
    """A command of `lakehouse` that has commands of its own."""
    commands = make_application(help_text)
    app.add_typer(
        commands, name=name, epilog=render_examples(name), rich_help_panel=find_task(name)
    )
    return commands


def command(
    name: str, of: typer.Typer = app
) -> Callable[[Callable[Concatenate[Chosen, Given], None]], Callable[..., None]]:
    """Register a function as a command of `lakehouse`, or of a group of its commands.

    It gets the common options first. Its help ends with the examples of `cdc_lakehouse.cli.help`.
    """

    def register(function: Callable[Concatenate[Chosen, Given], None]) -> Callable[..., None]:
        return of.command(
            name,
            help=join_lines(inspect.getdoc(function) or ""),
            epilog=render_examples(name),
            rich_help_panel=find_task(name),
        )(handle_interrupt(with_common_options(function)))

    return register


def handle_interrupt(function: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command, so that Ctrl-C says in which step the work was broken off.

    Raises:
        Interrupted: Ctrl-C.
    """

    @functools.wraps(function)
    def guarded(*args: object, **given: object) -> None:
        raise_again()
        try:
            function(*args, **given)
        except BaseException as failure:
            if not (isinstance(failure, KeyboardInterrupt) or was_pressed()):
                raise
            raise Interrupted(current_step()) from failure

    vars(guarded).update(__signature__=inspect.signature(function))
    return guarded


def run_command_line(
    application: typer.Typer, arguments: Sequence[str] | None = None, name: str = "lakehouse"
) -> None:
    """Run a command line; return when it is done, or leave the process with its exit code.

    Every error is one block on stderr, also one that nobody foresaw.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if "--debug" in given:
        return _run_application(application, given, name)
    sys.excepthook = _show_unforeseen
    try:
        _run_application(application, given, name)
    except LakehouseError as error:
        _exit_with(error)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyspark":
            raise
        _exit_with(SparkUnavailable("no pyspark here", WITH_SPARK))


def load_conf(chosen: Chosen, search: "Search | None" = None) -> tuple[Target, list[Table]]:
    """Target and tables, with everything checked that can be checked without Spark.

    A run's `search` starts Spark where it has to ask for Kafka's topics.
    """
    return load_chosen(chosen, [find_problems], search)


def load_whole_conf(
    chosen: Chosen, search: "Search | None" = None
) -> tuple[Target, list[Table], list[Table]]:
    """Target, the tables that were chosen, and all that are configured; as `load_conf`."""
    target, everything = load_conf(chosen._replace(only=()), search)
    return target, select_tables(everything, chosen.only), everything


def choose_one(chosen: Chosen, name: str) -> Chosen:
    """The choice of the one table of this name.

    Raises:
        ConfigurationError: `--table` chooses another table.
    """
    for other in set(chosen.only) - {name}:
        problem, expected = f"--table {other} beside {name}", "one table"
        raise ConfigurationError("command line", "--table", problem, expected, "leave one out")
    return chosen._replace(only=(name,))


def check_lake(target: Target) -> None:
    """Checks that a local lake is there, before Spark starts, which would make it.

    Raises:
        ConfigurationError: there is none.
    """
    if target.catalog or not is_reached(target, target.lake):
        return
    if not to_place(target, target.lake).is_dir():
        problem, expected = f"no lake in {target.root}", f"the folder {target.lake}"
        action = "run `lakehouse run` first, or correct --root or the target's root"
        raise ConfigurationError("command line", "--root", problem, expected, action)


def open_lake(
    target: Target,
    tables: Sequence[Table] | None,
    open_ended: bool = False,
    sends_functions: bool = False,
    asks: Chosen | None = None,
) -> Lake:
    """The lake with a Spark session; on a terminal a live line is shown while it starts.

    Without `tables` it is to read Kafka. `open_ended` work may read more than is there now. Work
    that decodes or folds records `sends_functions`: a server must be able to run this process's
    Python functions. A command that only asks names its options with `asks`: the lake's running
    server is used, if there is one.

    Raises:
        SparkUnavailable: there is no session, or it cannot run the functions.
    """
    warm = _connect_warm(target, asks) if asks else None
    if warm is not None:
        return Lake(warm, target)
    from bronze.kafka.ingest import CONNECTOR, TOKENS, list_jars, list_packages
    from lakehouse.spark.session import check_server_python, get_spark

    with show_progress(describe_start(target, asks is not None)) as tell:
        needed = [CONNECTOR], [TOKENS]
        if tables is not None:
            needed = list_packages(tables), list_jars(tables)
        spark = get_spark(target, *needed, open_ended, progress=tell)
        if sends_functions and target.kind not in ("local", "cluster"):
            check_server_python(spark)
        return Lake(spark, target)


def _connect_warm(target: Target, asks: Chosen) -> "SparkSession | None":
    """A session on the lake's server, which is started where the target says `serve: auto`.

    None where the process has a Spark of its own, which then answers.
    """
    if has_own_spark():
        return None
    if target.serve == "auto" and is_on_this_machine(target) and find_server(target) is None:
        try:
            with show_progress(f"starting a server, which ends when idle for {IDLE}"):
                spawn_server(target, ["--idle", IDLE, *options_of(asks)])
        except (OSError, SparkUnavailable) as failure:
            warn(f"no Spark is kept ready: {failure}")
    return connect_to_server(target)


def is_on_this_machine(target: Target) -> bool:
    """Whether the target's Spark and lake are on this machine, so that a server can serve it."""
    return target.kind == "local" and "://" not in target.lake


def describe_start(target: Target, asks: bool) -> str:
    """What is said while Spark starts, with what keeps one ready for a command that asks."""
    serves = asks and target.kind == "local"
    return "starting Spark" + ("; `lakehouse serve` keeps one ready" if serves else "")


def _run_application(application: typer.Typer, given: Sequence[str], name: str) -> None:
    """Runs an application without Typer's SystemExit(0), which Databricks takes for a failed task.

    Its command is called directly, as calling the application replaces the exception hook.

    Raises:
        ConfigurationError: wrong usage.
    """
    command = typer.main.get_command(application)
    try:
        code = command(given, prog_name=name, standalone_mode=False)
    except SystemExit as ended:
        code = ended.code
    except typer.Abort:
        print("nothing more was done", file=sys.stderr)
        sys.exit(1)
    except USAGE_ERROR as wrong:
        if not wrong.format_message():  # no command was given: the help has been shown
            sys.exit(ConfigurationError.exit_code)
        words = itertools.takewhile(lambda word: not word.startswith("-"), given)
        of = wrong.ctx.command_path if wrong.ctx else " ".join([name, *words])
        usage = wrong.ctx.get_usage() if wrong.ctx else f"{of} [OPTIONS]"
        raise _usage_error(wrong.format_message(), of, usage) from None
    if code:
        sys.exit(code)


def _usage_error(message: str, command: str, usage: str) -> ConfigurationError:
    """Typer's message of wrong usage in the form of every other error."""
    text = message.rstrip(".").replace("Value error, ", "")
    problem, expected = text[:1].lower() + text[1:], " ".join(usage.split()).removeprefix("Usage: ")
    action = f"`{command} --help` shows what there is"
    return ConfigurationError("command line", command, problem, expected, action)


def _exit_with(error: LakehouseError) -> NoReturn:
    show_error(str(error))
    sys.exit(error.exit_code)


def _show_unforeseen(kind: type[BaseException], error: BaseException, _: object) -> None:
    session = sys.modules.get("lakehouse.spark.session")
    if session is not None and session.java_has_ended():
        _exit_with(java_ended())
    message = shorten_failure(error)
    action = find_remedy(message) or "--debug shows where"
    show_error(f"{kind.__name__}: {message.splitlines()[0]}\n  do: {action}")
