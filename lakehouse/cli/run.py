"""`run`, and the console scripts of the single layers: ingest, apply, publish, account for it."""

import functools
import importlib
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.front import application, command, configured, enter, start
from lakehouse.durations import seconds
from lakehouse.errors import ConfigurationError, ManyTablesFailed, TableFailed
from lakehouse.landing import land_extract
from lakehouse.options import Chosen, with_common_options
from lakehouse.table import Table
from lakehouse.target import Layer, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.console import Progress
    from lakehouse.ledger import Entry

    Job = Callable[[SparkSession, Target, list[Table], str, Progress], list[Entry]]

JOBS: dict[Layer, str] = {"bronze": "ingest", "silver": "apply", "gold": "publish"}
RECORDED_HERE = ("bronze", "gold")

Continuous = Annotated[bool, typer.Option("--continuous", help="Go on until interrupted.")]
Interval = Annotated[str, typer.Option(help="Pause between rounds of --continuous.")]
RunId = Annotated[str | None, typer.Option(help="Name of the run in the ledger.")]
Extract = Annotated[
    Path | None, typer.Option(help="Folder with an extract of the one snapshot --table.")
]
EffectiveDate = Annotated[
    str | None, typer.Option(help="Business effective date of --extract, YYYY-MM-DD.")
]


@command("run")
def run(
    chosen: Chosen,
    layer: Annotated[Layer | None, typer.Option(help="Only this layer.")] = None,
    continuous: Continuous = False,
    interval: Interval = "5s",
    run_id: RunId = None,
    extract: Extract = None,
    effective_date: EffectiveDate = None,
) -> None:
    """Ingest what is new, apply it, publish it."""
    if extract is not None or effective_date is not None:
        _land(chosen, extract, effective_date)
    run_layers(chosen, [layer] if layer else list(JOBS), continuous, interval, run_id)


def layer_main(layer: Layer, arguments: Sequence[str] | None = None) -> None:
    """The console scripts `bronze`, `silver` and `gold`: that one layer of `run`."""

    def one_layer(
        chosen: Chosen,
        continuous: Continuous = False,
        interval: Interval = "5s",
        run_id: RunId = None,
    ) -> None:
        run_layers(chosen, [layer], continuous, interval, run_id)

    single = application(f"Run the {layer} layer.")
    single.command(layer)(with_common_options(one_layer))
    enter(single, arguments)


def run_layers(
    chosen: Chosen, layers: Sequence[Layer], continuous: bool, interval: str, run_id: str | None
) -> None:
    """Rounds over the layers, one or (continuous) until interrupted.

    Raises:
        ManyTablesFailed: at the end, every table that failed in the last round.
    """
    pause = _pause(interval)
    target, tables = configured(chosen)
    everything = configured(chosen._replace(only=()))[1]
    tables = whole_groups(tables, everything)
    spark = start(target, tables)
    entries = one_round(spark, target, tables, layers, run_id, everything=everything)
    while continuous:
        _report(entries)
        time.sleep(pause)
        entries = one_round(
            spark, target, tables, layers, told_when_idle=False, everything=everything
        )
    fail_at_the_end(entries)


def whole_groups(tables: Sequence[Table], everything: Sequence[Table]) -> list[Table]:
    """The tables and the other members of their consistency groups: a group moves together."""
    named = {table.consistency_group for table in tables} - {None}
    return [t for t in everything if t in tables or t.consistency_group in named]


def one_round(
    spark: "SparkSession",
    target: Target,
    tables: list[Table],
    layers: Sequence[Layer],
    run_id: str | None = None,
    told_when_idle: bool = True,
    everything: list[Table] | None = None,
) -> "list[Entry]":
    """Every layer once over all tables, a summary line for each; returns all entries.

    `everything` are all tables of the configuration, where `tables` are only some.
    """
    from lakehouse import ledger
    from lakehouse.console import progress, show_entry

    entries = []
    for layer in layers:
        with progress(layer) as tell:
            job = _job(layer, everything)
            done = job(spark, target, tables, run_id or uuid.uuid4().hex, tell)
        worth = [entry for entry in done if entry.status == "failed" or any(entry.counts.values())]
        if layer in RECORDED_HERE:
            ledger.append(spark, target, worth)
        for entry in done if told_when_idle else worth:
            show_entry(entry)
        entries += done
    warn_of_dead_letters(spark, target, tables, entries)
    return entries


def warn_of_dead_letters(
    spark: "SparkSession", target: Target, tables: list[Table], entries: "Sequence[Entry]"
) -> None:
    """A line on stderr for each table that a round left with too many; the exit code stays."""
    own = [entry for entry in entries if entry.layer == "silver"]
    if any(name.startswith("dead_letter:") for entry in own for name in entry.counts):
        letters = importlib.import_module("silver.dead_letters")
        for line in letters.alarms(spark, target, tables, own):
            print(f"warning: {line}", file=sys.stderr)


def fail_at_the_end(entries: "Sequence[Entry]") -> None:
    """Raise ManyTablesFailed when any table failed in any layer."""
    failures = [
        TableFailed(f"{entry.layer} {entry.table}", entry.message or "no reason given")
        for entry in entries
        if entry.status == "failed"
    ]
    if failures:
        raise ManyTablesFailed(failures)


def _land(chosen: Chosen, extract: Path | None, day: str | None) -> None:
    """Drops the extract into the landing folder of its table; a second time nothing is new."""
    if extract is None or day is None:
        missing = "--extract" if extract is None else "--effective-date"
        expected = "--extract and --effective-date together"
        raise ConfigurationError("command line", missing, "nothing", expected, "add it")
    target, tables = configured(chosen)
    landed = land_extract(target, tables, extract, day)
    print(f"{len(landed)} new files of the extract of {day}", file=sys.stderr)


def _report(entries: "Sequence[Entry]") -> None:
    """In continuous mode failures are told on stderr and tried again in the next round."""
    try:
        fail_at_the_end(entries)
    except ManyTablesFailed as failed:
        print(f"error: {failed}", file=sys.stderr)


def _pause(interval: str) -> int:
    try:
        return seconds(interval)
    except ValueError as wrong:
        raise ConfigurationError(
            "command line", "--interval", interval, str(wrong), "correct it"
        ) from wrong


def _job(layer: Layer, everything: list[Table] | None) -> "Job":
    job: Callable[..., list[Entry]] = getattr(importlib.import_module(f"{layer}.job"), JOBS[layer])
    return functools.partial(job, configured=everything) if layer == "gold" else job
