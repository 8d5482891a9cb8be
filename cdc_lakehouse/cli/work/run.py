"""`run`, and the console scripts of single layers: ingest, apply, publish, account for it."""

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cdc_lakehouse.cli.front import (
    application,
    command,
    configured,
    configured_whole,
    enter,
    interruptible,
    start,
)
from cdc_lakehouse.cli.help import examples
from cdc_lakehouse.cli.options import Chosen, with_common_options
from cdc_lakehouse.cli.silence import Warner, warn_of_open_checks
from cdc_lakehouse.cli.work import continuous as ticks
from cdc_lakehouse.cli.work import idle
from cdc_lakehouse.cli.work.locking import locked
from cdc_lakehouse.cli.work.rounds import Round, is_worth_telling, telling_together, try_layer
from cdc_lakehouse.cli.work.run_lines import show_entries
from cdc_lakehouse.cli.work.watcher import Watcher
from cdc_lakehouse.terminal.verbosity import Form, Level, level, set_form
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Layer, Target
from lakehouse.durations import seconds
from lakehouse.errors import ConfigurationError, ManyTablesFailed, TableFailed
from lakehouse.remedies import check_writable, is_unreachable, with_remedy
from lakehouse.run.memory import Memory
from lakehouse.storage.landing import land_extract, rename_landed
from lakehouse.words import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.ledger import Entry
    from lakehouse.run.lineage import Lineage
    from lakehouse.storage.settled import Inputs

WATCH_SECONDS, RULE = 30.0, "dead_letter:rule:"

Continuous = Annotated[bool, typer.Option("--continuous", help="Go on until interrupted.")]
Interval = Annotated[str, typer.Option(help="Pause between rounds of --continuous.")]
Merge = Annotated[bool, typer.Option("--merge", help="Merge everything that waits, whatever pays.")]
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
    interval: Interval = "5s",
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
    if metrics is not None and not continuous:
        action = "add --continuous, or ask `lakehouse status --format prometheus`"
        raise ConfigurationError("command line", "--metrics", metrics, "--continuous", action)
    if again:
        _read_again(chosen, again)
    if extract is not None or effective_date is not None:
        _land(chosen, extract, effective_date)
    layers = [layer] if layer else list(LAYERS)
    pause = seconds_of(interval)
    run_layers(chosen, Asked(layers, pause, continuous, run_id, merge, metrics=metrics))


class Asked(NamedTuple):
    """What a run is asked to do.

    Attributes:
        layers: the layers to work on, in their order.
        pause: seconds between two looks at a feed, of a run that goes on.
        continuous: whether it goes on until interrupted.
        run_id: the name of the run in the ledger; one of its own for each piece of work else.
        merge: whether it merges all that waits.
        metrics: the port, or HOST:PORT, at which a run that goes on tells its metrics.
    """

    layers: Sequence[Layer]
    pause: int = 0
    continuous: bool = False
    run_id: str | None = None
    merge: bool = False
    metrics: str | None = None


def run_layers(chosen: Chosen, asked: Asked) -> None:
    """One round over the layers, or (continuous) work until interrupted.

    A table that another run is writing is refused, and the others are done. A round over all layers
    of all tables that has nothing to do starts no Spark.

    Raises:
        ManyTablesFailed: at the end, every table that failed (continuous: and still does).
    """
    target, chosen_tables, everything = configured_whole(chosen)
    tables = whole_groups(chosen_tables, everything)
    check_writable(target)
    warn_of_open_checks(chosen.conf, tables)
    with locked(target, tables, asked.layers, asked.run_id or uuid.uuid4().hex) as (free, failures):
        whole = free == everything and tuple(asked.layers) == LAYERS and not asked.continuous
        inputs = idle.look_at(target, everything) if whole else None
        if inputs is not None and idle.answer(target, everything, inputs, asked.merge):
            return
        idle.forget(target)
        if free:
            failures += _work(target, (free, everything), asked, inputs)
    raise_all(failures)


def _work(
    target: Target,
    tables: tuple[list[Table], list[Table]],
    asked: Asked,
    inputs: "Inputs | None",
) -> list[TableFailed]:
    """Starts Spark and does what is asked of the first tables; the second are all there are.

    `inputs` is what the run depends on, where its end may leave the mark of a settled lake.
    """
    from bronze.kafka.ingest import reads_kafka
    from cdc_lakehouse.cli.work.rebuild import rebuild_renamed
    from lakehouse.run.lineage import Lineage

    free, everything = tables
    open_ended, functions = asked.continuous or reads_kafka(free), list(asked.layers) != ["gold"]
    spark = start(target, free, open_ended, sends_functions=functions)
    memory = None if target.catalog else Memory(len(free) if asked.continuous else None)
    given = Round(spark, target, asked.run_id, everything, memory, asked.merge)
    warner, watcher = Warner(target, free), Watcher(given, free, asked.metrics)
    lineage = Lineage(target, free)
    failures = rebuild_renamed(given, free) if tuple(asked.layers) == LAYERS else []
    with telling_together(spark, target, asked.layers, memory):
        if asked.continuous:
            return failures + _until_told(given, free, asked, (watcher, lineage))
        with lineage.running():
            entries = one_round(given, free, asked.layers, warner)
            lineage.tell(entries)
        watcher.look()
        _warn_of(lineage)
    if inputs is not None and memory is not None:
        idle.settle(given, (inputs, entries, warner.told))
    return failures + failed(entries)


def whole_groups(tables: Sequence[Table], everything: Sequence[Table]) -> list[Table]:
    """The tables and the other members of their consistency groups: a group moves together."""
    named = {table.consistency_group for table in tables} - {None}
    return [t for t in everything if t in tables or t.consistency_group in named]


def one_round(
    given: Round, tables: list[Table], layers: Sequence[Layer], warner: Warner | None = None
) -> "list[Entry]":
    """Every layer once over all tables, a line per table at the end; returns all entries.

    `warner` tells what bronze's feeds and the tables' columns are to be looked at for.
    """
    from cdc_lakehouse.terminal.console import progress

    entries: list[Entry] = []
    try:
        for layer in layers:
            with progress(layer) as tell:
                entries += try_layer(given, tables, layer, tell)
    finally:
        show_entries(entries)
    warn_of_dead_letters(given.spark, given.target, tables, entries)
    if "bronze" in layers:
        (warner or Warner(given.target, tables)).tell()
    return entries


def warn_of_dead_letters(
    spark: "SparkSession", target: Target, tables: list[Table], entries: "Sequence[Entry]"
) -> None:
    """A line on stderr for each table that a round left with too many; the exit code stays."""
    from cdc_lakehouse.terminal.console import warn
    from silver.changelog.dead_letters import count_too_many

    own = [entry for entry in entries if entry.layer == "silver"]
    for name, rule in _first_rejections(spark, target, own):
        warn(
            f"{name}: the rule {rule} rejects rows for the first time; "
            f"do: `lakehouse dead-letters list --table {name} --reason rule`"
        )
    if any(name.startswith("dead_letter:") for entry in own for name in entry.counts):
        for table, count in count_too_many(spark, target, tables, own):
            warn(
                f"{table.table} has {counted(count, 'unresolved dead letter')}, more than its "
                f"max_dead_letters {table.max_dead_letters:,}: "
                f"lakehouse dead-letters list --table {table.table}"
            )


def _warn_of(lineage: "Lineage") -> None:
    """Tells what of the lineage could not be told, once."""
    from cdc_lakehouse.terminal.console import warn

    while lineage.problems:
        warn(lineage.problems.pop())


def _first_rejections(
    spark: "SparkSession", target: Target, entries: "Sequence[Entry]"
) -> list[tuple[str, str]]:
    """Tables and rules that rejected rows in these entries and in none before."""
    from lakehouse.run import ledger

    now = {(e.table, n): n.split(":", 2)[2] for e in entries for n in e.counts if RULE in n}
    if not now:
        return []
    runs = [entry.run_id for entry in entries]
    earlier = ledger.read(spark, target).where("layer = 'silver'")
    earlier = earlier.where(~earlier["run_id"].isin(runs))
    named = earlier.selectExpr("`table`", "explode(map_keys(counts)) AS name").distinct()
    before = {(row["table"], row["name"]) for row in named.collect()}
    return [(table, rule) for (table, name), rule in now.items() if (table, name) not in before]


def _until_told(
    given: Round, tables: list[Table], asked: Asked, tell_others: "tuple[Watcher, Lineage]"
) -> list[TableFailed]:
    """Works until SIGINT or SIGTERM, shows what came of it all; what failed last of each table.

    Raises:
        SparkUnavailable: the session is gone, so that nothing could be tried again.
    """
    from bronze.feeds import families
    from cdc_lakehouse.terminal.console import say, show_error

    (watcher, lineage), layers = tell_others, asked.layers
    told_of: Layer = "silver" if "silver" in layers else layers[0]

    def tell(entry: "Entry") -> None:
        if entry.layer == told_of or level() is Level.VERBOSE:
            show_entries([entry])
        if entry.layer == told_of or entry.status == "failed":
            lineage.tell([entry])
        for failure in failed([entry]):
            show_error(str(failure))

    watched: dict[tuple[Layer, str], float] = {}
    warner = Warner(given.target, tables)

    def do(layer: Layer, some: Sequence[Table]) -> "list[Entry]":
        now, work = time.monotonic(), (layer, some[0].table)
        watch = now - watched.get(work, -WATCH_SECONDS) >= WATCH_SECONDS
        watched[work] = now if watch else watched[work]
        done = try_layer(given, some, layer, _quiet, watch)
        if watch and layer == layers[-1]:
            warner.tell()
        watcher.note(done)
        return done

    with ticks.until_told() as stop, watcher.serving():
        watcher.look()
        say(f"working on {counted(len(tables), 'table')} until interrupted")
        told = ticks.go_on(families(tables), layers, asked.pause, do, tell, stop)
        told = ticks.settled(tables, told, do, tell, given.memory)
    show_sum(told)
    warner.tell()
    watcher.look()
    _warn_of(lineage)
    return failed(told)


def show_sum(told: "Sequence[Entry]") -> None:
    """What came of a run that went on, or that nothing did."""
    from cdc_lakehouse.terminal.console import say

    shown = [entry for entry in told if is_worth_telling(entry)]
    say("stopped; in all:" if shown else "stopped; nothing was new")
    show_entries(shown)


def _quiet(_: str) -> None:
    """No progress to show: several pieces of work go on at once."""


def failed(entries: "Sequence[Entry]") -> list[TableFailed]:
    """A failure for every entry that is one, with what to do about it where that is known."""
    return [
        TableFailed(
            f"{entry.layer} {entry.table}",
            with_remedy(entry.message),
            is_unreachable(entry.message),
        )
        for entry in entries
        if entry.status == "failed"
    ]


def raise_all(failures: Sequence[TableFailed]) -> None:
    """Raise ManyTablesFailed when there are any."""
    if failures:
        raise ManyTablesFailed(failures)


def _land(chosen: Chosen, extract: Path | None, day: str | None) -> None:
    """Drops the extract into the landing folder of its table; a second time nothing is new."""
    if extract is None or day is None:
        missing = "--extract" if extract is None else "--effective-date"
        expected = "--extract and --effective-date together"
        raise ConfigurationError("command line", missing, "nothing", expected, "add it")
    from cdc_lakehouse.terminal.console import say_aside

    target, tables = configured(chosen)
    landed = land_extract(target, tables, extract, day)
    say_aside(f"{len(landed)} new snapshot files of {day}")


def _read_again(chosen: Chosen, files: Sequence[Path]) -> None:
    from cdc_lakehouse.terminal.console import say_aside

    target, _ = configured(chosen)
    for file in files:
        say_aside(f"{file} is read again as {rename_landed(target, file).name}")


def fail_at_the_end(entries: "Sequence[Entry]") -> None:
    """Raise ManyTablesFailed when any table failed in any layer."""
    raise_all(failed(entries))


def seconds_of(given: str, option: str = "--interval") -> int:
    """Seconds of an option that is a duration.

    Raises:
        ConfigurationError: it is no duration.
    """
    try:
        return seconds(given)
    except ValueError as wrong:
        raise ConfigurationError("command line", option, given, str(wrong), "correct it") from wrong


def run_layer(layer: Layer, arguments: Sequence[str] | None = None) -> None:
    """The console scripts `bronze`, `silver` and `gold`: that one layer of `run`."""

    def one_layer(
        chosen: Chosen,
        continuous: Continuous = False,
        interval: Interval = "5s",
        run_id: RunId = None,
    ) -> None:
        run_layers(chosen, Asked([layer], seconds_of(interval), continuous, run_id))

    single = application(f"Run the {layer} layer.")
    command = interruptible(with_common_options(one_layer))
    single.command(layer, epilog=examples(layer))(command)
    enter(single, arguments, layer)
