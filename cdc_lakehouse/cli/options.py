"""Options that every command has, and what they choose: a target and its tables."""

import functools
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, NamedTuple, ParamSpec

import typer

from cdc_lakehouse.terminal.verbosity import set_level
from lakehouse.config.loading import load_tables, load_target
from lakehouse.config.records.many_tables import FindTopics, ManyTables, Topic, Waiting
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.config.unpacking import Check
from lakehouse.durations import to_seconds
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors

if TYPE_CHECKING:
    from cdc_lakehouse.drafts.topic_notes import Search

Given = ParamSpec("Given")


class Chosen(NamedTuple):
    """The common options as they were given on the command line."""

    conf: Path = Path("conf")
    target: str = "local"
    root: str | None = None
    only: Sequence[str] = ()
    setting: Sequence[str] = ()
    quiet: bool = False
    verbose: bool = False
    debug: bool = False


_LOADED: ContextVar[dict[str, tuple[Target, list[Table]]] | None] = ContextVar(
    "loaded", default=None
)


def complete_targets(context: typer.Context, incomplete: str) -> list[str]:
    """Names of targets, for the shell's completion."""
    return _complete_names(context, "targets", incomplete)


def complete_tables(context: typer.Context, incomplete: str) -> list[str]:
    """Names of tables, for the shell's completion."""
    return _complete_names(context, "tables", incomplete)


def _complete_names(context: typer.Context, folder: str, incomplete: str) -> list[str]:
    """Names of the YAML files of a configuration folder; tables have the names of their files."""
    place = Path(context.params.get("conf") or "conf", folder)
    return sorted(f.stem for f in place.glob("*.y*ml") if f.stem.startswith(incomplete))


HELP = {
    "conf": Annotated[Path, typer.Option(metavar="DIR", help="Folder with targets/ and tables/.")],
    "target": Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A file in conf/targets, without .yml.",
            autocompletion=complete_targets,
        ),
    ],
    "root": Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder in which a local lake lies.")
    ],
    "only": Annotated[
        list[str],
        typer.Option(
            "--table",
            metavar="TABLE",
            help="Only this table; repeatable.",
            autocompletion=complete_tables,
        ),
    ],
    "setting": Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE", help="In place of the target's own; repeatable."
        ),
    ],
    "quiet": Annotated[bool, typer.Option("--quiet", help="Answers, warnings, errors only.")],
    "verbose": Annotated[bool, typer.Option("--verbose", help="A line per table and layer.")],
    "debug": Annotated[bool, typer.Option("--debug", help="Show tracebacks.")],
}


@contextmanager
def reading_once() -> Iterator[None]:
    """Within, a configuration is read once for the same options, even if its files change."""
    before = _LOADED.set({})
    try:
        yield
    finally:
        _LOADED.reset(before)


def load_chosen(
    chosen: Chosen, checks: Sequence[Check], search: "Search | None" = None
) -> tuple[Target, list[Table]]:
    """The target and the tables that were chosen; a run's `search` finds new topics.

    Raises:
        ManyConfigurationErrors: all that is wrong in either.
    """
    loaded, key = _LOADED.get(), repr([*chosen[:3], list(chosen.only), list(chosen.setting)])
    if loaded is not None and key in loaded:
        target, tables = loaded[key]
        return target, list(tables)
    errors: list[ConfigurationError] = []
    with _collect_errors(errors):
        target = load_target(chosen.conf, chosen.target, chosen.root, chosen.setting)
    defaults = {} if errors else target.defaults
    if not errors or (chosen.conf / "tables").is_dir():
        with _collect_errors(errors):
            find_topics = None if errors else _make_finder(target, search)
            waiting: list[Waiting] = []
            tables = load_tables(chosen.conf, chosen.only, checks, defaults, find_topics, waiting)
            _tell_waiting(waiting, search)
    if errors:
        raise ManyConfigurationErrors(errors)
    if loaded is not None:
        loaded[key] = target, list(tables)
    return target, tables


def _make_finder(target: Target, search: "Search | None") -> FindTopics:
    """What finds topics; only a file of many tables needs the modules that do."""

    def find(source: Mapping[str, Any], many: ManyTables) -> list[Topic]:
        from cdc_lakehouse.drafts.topics import TopicFinder

        return TopicFinder(target, search).find(source, many)

    return find


def _tell_waiting(waiting: Sequence[Waiting], search: "Search | None") -> None:
    """Warns of tables that wait, a run's search once of each."""
    from cdc_lakehouse.terminal.console import warn

    for sentence in map(str, waiting):
        if search is None or sentence not in search.told:
            warn(sentence)
        if search is not None:
            search.told.add(sentence)


def same_lake(chosen: Chosen) -> str:
    """The options with which another command finds the same lake, each after a blank."""
    given = Chosen()
    return "".join(
        f" --{key} {shlex.quote(str(getattr(chosen, key)))}"
        for key in ("conf", "target", "root")
        if getattr(chosen, key) != getattr(given, key)
    )


def options_of(chosen: Chosen) -> list[str]:
    """The options by which a process of its own works on the same target."""
    given = ["--conf", str(chosen.conf), "--target", chosen.target]
    given += ["--root", chosen.root] if chosen.root is not None else []
    return given + [part for setting in chosen.setting for part in ("--set", setting)]


def with_common_options(
    function: Callable[Concatenate[Chosen, Given], None],
) -> Callable[..., None]:
    """Adds the common options to a command, which gets them as a `Chosen`."""

    @functools.wraps(function)
    def command(*args: Given.args, **given: Given.kwargs) -> None:
        chosen = Chosen._make([given.pop(key) for key in HELP])
        if chosen.quiet or chosen.verbose:
            set_level(chosen.quiet, chosen.verbose)
        function(chosen, *args, **given)

    shown = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    common = [
        inspect.Parameter(key, keyword, default=default, annotation=HELP[key])
        for key, default in Chosen._field_defaults.items()
    ]
    parameters = [*list(shown.parameters.values())[1:], *common]
    hints = {parameter.name: parameter.annotation for parameter in parameters}
    vars(command).update(__signature__=shown.replace(parameters=parameters), __annotations__=hints)
    del vars(command)["__wrapped__"]
    return command


@contextmanager
def _collect_errors(errors: list[ConfigurationError]) -> Iterator[None]:
    """Keep configuration errors for later instead of raising them."""
    try:
        yield
    except ConfigurationError as error:
        errors.append(error)
    except ManyConfigurationErrors as several:
        errors.extend(several.errors)


def seconds_of(given: str, option: str = "--interval") -> int:
    """The seconds of an option's duration, such as `30s`.

    Raises:
        ConfigurationError: it is no duration.
    """
    try:
        return to_seconds(given)
    except ValueError as wrong:
        raise ConfigurationError("command line", option, given, str(wrong), "correct it") from wrong
