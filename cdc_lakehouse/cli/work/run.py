"""`run`, and the console scripts of single layers: ingest, apply, publish, account for it."""

import time
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from bronze.feeds import group_tables
from cdc_lakehouse.cli.front import (
    command,
    handle_interrupt,
    load_conf,
    load_whole_conf,
    make_application,
    open_lake,
    run_command_line,
)
from cdc_lakehouse.cli.help import render_examples
from cdc_lakehouse.cli.new_tables import NewTables
from cdc_lakehouse.cli.options import Chosen, seconds_of, with_common_options
from cdc_lakehouse.cli.run_warnings import warn_of_records
from cdc_lakehouse.cli.silence import Warner, split_unconfirmed
from cdc_lakehouse.cli.work import continuous as ticks
from cdc_lakehouse.cli.work import idle
from cdc_lakehouse.cli.work.locking import lock_tables
from cdc_lakehouse.cli.work.rebuild import rebuild_renamed
from cdc_lakehouse.cli.work.rounds import (
    Round,
    has_news,
    list_failures,
    raise_all,
    try_layer,
    whole_groups,
    write_entries_together,
)
from cdc_lakehouse.cli.work.run_lines import show_entries
from cdc_lakehouse.cli.work.watcher import Watcher
from cdc_lakehouse.terminal.console import say, say_aside, show_error, show_progress, warn
from cdc_lakehouse.terminal.verbosity import Form, Level, current_level, set_form
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Layer, Target
from lakehouse.errors import ConfigurationError, TableFailed
from lakehouse.remedies import check_writable, is_unreachable, with_remedy
from lakehouse.run.ledger import Entry
from lakehouse.run.lineage import Lineage
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from lakehouse.storage.landing import land_snapshot, rename_landed
from lakehouse.storage.settled import Inputs
from lakehouse.words import render_count

WATCH_SECONDS = 30.0

Continuous = Annotated[bool, typer.Option("--continuous", help="Go on until interrupted.")]
Interval = Annotated[
    str | None, typer.Option(help="Pause between rounds of --continuous; 5s if not given.")
]
Merge = Annotated[bool, typer.Option("--merge", help="Merge everything that waits, whatever pays.")]
Captures = Annotated[
    bool, typer.Option("--capture", help="With --continuous: `lakehouse capture` beside it.")
]
Metrics = Annotated[
    str | None,
    typer.Option(metavar="PORT", help="Metrics of --continuous by HTTP; HOST:PORT elsewhere."),
]
Log = Annotated[
    Form | None, typer.Option("--log", envvar="LAKEHOUSE_LOG", help="json: an object a line.")
]
RunId = Annotated[str | None, typer.Option(help="Name of the run in the ledger.")]
Extract = Annotated[
    Path | None, typer.Option(help="Folder with snapshot files of the one --table.")
]
EffectiveDate = Annotated[
    str | None, typer.Option(help="Business effective date of --extract, YYYY-MM-DD.")
]
Again = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A dropped file to be read again; repeatable."),
]


@command("run")
def run(
    chosen: Chosen,
    layer: Annotated[Layer | None, typer.Option(help="Only this layer.")] = None,
    continuous: Continuous = False,
    interval: Interval = None,
    capture: Captures = False,
    merge: Merge = False,
    run_id: RunId = None,
    extract: Extract = None,
    effective_date: EffectiveDate = None,
    metrics: Metrics = None,
    log: Log = None,
    again: Again = None,
) -> None:
    """Ingest what is new, apply it, publish it.

    A file that is to be read --again gets a new name: names are read once.
    """
    if log is not None:
        set_form(log)
    pause = _check_continuous(interval, metrics, continuous)
    if again:
        _read_again(chosen, again)
    if extract is not None or effective_date is not None:
        _land_snapshot(chosen, extract, effective_date)
    layers = [layer] if layer else list(LAYERS)
    beside: AbstractContextManager[None] = nullcontext()
    if capture:
        from cdc_lakehouse.capture.session import capture_beside

        beside = capture_beside(chosen, continuous)
    with beside:
        run_layers(chosen, Asked(layers, pause, continuous, run_id, merge, metrics=metrics))


class Asked(NamedTuple):
    """What a run is asked to do.

    Attributes:
        layers: the layers to work on, in their order.
        pause: seconds between two looks at a feed, of a run that goes on.
        continuous: whether it goes on until interrupted.
        run_id: the name of the run in the ledger; without it each piece of work has its own.
        merge: whether it merges all pending changes.
        metrics: the port, or HOST:PORT, at which a run that goes on serves its metrics.
    """

    layers: Sequence[Layer]
    pause: int = 0
    continuous: bool = False
    run_id: str | None = None
    merge: bool = False
    metrics: str | None = None


def run_layers(chosen: Chosen, asked: Asked) -> None:
    """One round over the layers; a continuous run works until interrupted.

    A table that another run is writing is refused, and so is one of which a guess of `init` is not
    confirmed; the others are done. A round over all layers of all tables starts no Spark if nothing
    is new.

    Raises:
        ManyTablesFailed: at the end, every table that failed (continuous: and still does).
    """
    from cdc_lakehouse.drafts.topic_notes import Search, list_new_tables

    search = Search(_open_for_topics) if "bronze" in asked.layers else None
    target, chosen_tables, everything = load_whole_conf(chosen, search)
    tables, refused = split_unconfirmed(chosen.conf, whole_groups(chosen_tables, everything))
    check_writable(target)
    run_id = asked.run_id or uuid.uuid4().hex
    for line in list_new_tables(target, everything):
        say(line, whole=True)
    with lock_tables(target, tables, asked.layers, run_id) as (free, failures):
        failures += refused
        whole = free == everything and tuple(asked.layers) == LAYERS and not asked.continuous
        inputs = idle.look_at_inputs(target, everything) if whole else None
        if inputs is not None and idle.answer_from_mark(target, everything, inputs, asked.merge):
            return
        idle.forget_mark(target)
        if free or (search and search.new and asked.continuous):
            more = NewTables(chosen, asked.layers, search, everything)
            failures += _work_on_tables(target, free, asked, (more, inputs))
        elif not everything:
            say("no topic is a table yet")
    for servers, reason in (search.failures if search else {}).items():
        failures.append(TableFailed(servers, with_remedy(reason), is_unreachable(reason)))
    raise_all(failures)


def _open_for_topics(target: Target) -> Lake:
    check_writable(target)
    return open_lake(target, None, open_ended=True)


def _work_on_tables(
    target: Target, free: list[Table], asked: Asked, of: tuple[NewTables, Inputs | None]
) -> list[TableFailed]:
    """Starts Spark and works on the tables, and on those that are found meanwhile.

    With inputs, which the run depends on, its end leaves the mark of an idle lake.
    """
    from bronze.kafka.ingest import reads_kafka

    (more, inputs), everything = of, of[0].everything
    open_ended, functions = asked.continuous or reads_kafka(free), list(asked.layers) != ["gold"]
    lake = open_lake(target, free, open_ended, sends_functions=functions)
    memory = None if target.catalog else Memory(len(free) if asked.continuous else None)
    if memory is not None:
        memory.just_asked = more.take_answers()
    given = Round(lake, asked.run_id, everything, memory, asked.merge)
    warner, watcher = Warner(target, free), Watcher(given, free, asked.metrics)
    lineage = Lineage(target, free)
    failures = rebuild_renamed(given, free) if tuple(asked.layers) == LAYERS else []
    with write_entries_together(lake, asked.layers, memory):
        if asked.continuous:
            entries = _work_until_stopped(given, free, asked, (watcher, lineage, more))
        else:
            with lineage.running():
                entries = one_round(given, free, asked.layers, warner)
                lineage.report(entries)
            watcher.note_entries(entries)
    watcher.look_at_tables()
    _warn_of_lineage(lineage)
    if inputs is not None and memory is not None:
        idle.leave_mark(given, (inputs, entries, warner.warned))
    return failures + list_failures(entries)


def one_round(
    given: Round, tables: list[Table], layers: Sequence[Layer], warner: Warner | None = None
) -> list[Entry]:
    """Every layer once over all tables, a line per table at the end; returns all entries.

    If Ctrl-C breaks it off, only tables with news have a line, as nothing is known of the others.
    `warner` prints the warnings about bronze's feeds and the tables' columns.
    """
    entries: list[Entry] = []
    shown: list[Entry] = []
    try:
        for layer in layers:
            with show_progress(layer) as tell:
                entries += try_layer(given, tables, layer, tell)
            shown = [*filter(has_news, entries)]
        shown = entries
    finally:
        show_entries(shown)
    warn_of_records(given.lake, tables, entries)
    if "bronze" in layers:
        (warner or Warner(given.lake.target, tables)).warn_of_news()
    return entries


def _warn_of_lineage(lineage: Lineage) -> None:
    """Warns, once each, of lineage events that could not be sent."""
    while lineage.problems:
        warn(lineage.problems.pop())


def _work_until_stopped(
    given: Round, tables: list[Table], asked: Asked, listeners: tuple[Watcher, Lineage, NewTables]
) -> list[Entry]:
    """Works until SIGINT or SIGTERM, prints and returns the sums by table and layer.

    Raises:
        SparkUnavailable: the session is gone, so that nothing could be tried again.
    """
    from silver.run import be_silent

    (watcher, lineage, more), layers = listeners, asked.layers
    shown_layer: Layer = "silver" if "silver" in layers else layers[0]

    def tell(entry: Entry) -> None:
        if entry.layer == shown_layer or current_level() is Level.VERBOSE:
            show_entries([entry])
        if entry.layer == shown_layer or entry.status == "failed":
            lineage.report([entry])
        for failure in list_failures([entry]):
            show_error(str(failure))

    watched: dict[tuple[Layer, str], float] = {}
    warner = Warner(given.lake.target, tables)

    def do(layer: Layer, some: Sequence[Table]) -> list[Entry]:
        now, work = time.monotonic(), (layer, some[0].table)
        if watch := now - watched.get(work, -WATCH_SECONDS) >= WATCH_SECONDS:
            watched[work] = now
        done = try_layer(given, some, layer, be_silent, watch)  # several layers work at once
        if layer == "silver":
            warn_of_records(given.lake, list(some), done)
        if watch and layer == layers[-1]:
            warner.warn_of_news()
        watcher.note_entries(done)
        return done

    sums: ticks.Sums = {}
    with ticks.stop_on_signal() as stop, watcher.watching(), ExitStack() as locks:
        watcher.look_at_tables()
        say(f"working on {render_count(len(tables), 'table')} until interrupted")
        while not stop.is_set():
            with more.searching(stop) as pause:
                families = group_tables(tables)
                done = ticks.work_until_stopped(families, layers, asked.pause, do, tell, pause)
            ticks.sum_and_tell(sums, done, lambda _: None)
            lineage.add(more.take_over(given, tables, locks))
        entries = ticks.apply_pending(tables, [*sums.values()], do, tell, given.memory)
    show_sum(entries)
    warner.warn_of_news()
    return entries


def show_sum(entries: Sequence[Entry]) -> None:
    """Prints the sums of a run that went on."""
    shown = [*filter(has_news, entries)]
    say("stopped; in all:" if shown else "stopped; nothing was new")
    show_entries(shown)


def _land_snapshot(chosen: Chosen, extract: Path | None, day: str | None) -> None:
    """Drops snapshot files into their table's landing folder; a second time nothing is new."""
    if extract is None or day is None:
        missing = "--extract" if extract is None else "--effective-date"
        expected = "--extract and --effective-date together"
        raise ConfigurationError("command line", missing, "nothing", expected, "add it")

    target, tables = load_conf(chosen)
    landed = land_snapshot(target, tables, extract, day)
    say_aside(f"{len(landed)} new snapshot files of {day}")


def _read_again(chosen: Chosen, files: Sequence[Path]) -> None:
    target, _ = load_conf(chosen)
    for file in files:
        say_aside(f"{file.name} is read again as {rename_landed(target, file).name}")


def _check_continuous(interval: str | None, metrics: str | None, continuous: bool) -> int:
    """Seconds between two rounds.

    Raises:
        ConfigurationError: an option of --continuous is given without it, or is no duration.
    """
    pause = seconds_of(interval or "5s")
    instead = "ask `lakehouse status --format prometheus`"
    of_continuous = (("--interval", interval, "leave it out"), ("--metrics", metrics, instead))
    for option, given, alternative in of_continuous:
        if given is not None and not continuous:
            action = f"add --continuous, or {alternative}"
            raise ConfigurationError("command line", option, given, "--continuous", action)
    return pause


def run_layer(layer: Layer, arguments: Sequence[str] | None = None) -> None:
    """The console scripts `bronze`, `silver` and `gold`: that one layer of `run`."""

    def one_layer(
        chosen: Chosen,
        continuous: Continuous = False,
        interval: Interval = None,
        run_id: RunId = None,
    ) -> None:
        pause = _check_continuous(interval, None, continuous)
        run_layers(chosen, Asked([layer], pause, continuous, run_id))

    single = make_application(f"Run the {layer} layer.")
    command = handle_interrupt(with_common_options(one_layer))
    single.command(layer, epilog=render_examples(layer))(command)
    run_command_line(single, arguments, layer)
