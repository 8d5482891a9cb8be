"""One layer's job over some tables: tried again at once where Delta transactions collide."""

import functools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.config.table import Table
from lakehouse.config.target import Layer, Target
from lakehouse.interrupts import stop_if_pressed
from lakehouse.remedies import session_ended
from lakehouse.run.memory import Memory
from lakehouse.spark.failures import describe_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_lakehouse.terminal.console import Progress
    from lakehouse.run.ledger import Entry

    Job = Callable[[SparkSession, Target, list[Table], str, Progress], list[Entry]]

MOST_TRIES = 4
RECORDED_HERE = ("bronze", "gold")


class Round(NamedTuple):
    """What all work of a round needs.

    Attributes:
        spark: the session.
        target: where the lake lies.
        run_id: the name of the run in the ledger; without it each piece of work has its own.
        everything: all tables that are configured, be they worked on or not.
        memory: what the run knows from earlier rounds; nobody else writes, as it holds the locks.
        merge: whether silver merges all pending changes, even where waiting is cheaper.
    """

    spark: "SparkSession"
    target: Target
    run_id: str | None = None
    everything: list[Table] | None = None
    memory: Memory | None = None
    merge: bool = False


def do_layer(
    given: Round, tables: Sequence[Table], layer: Layer, tell: "Progress", watched: bool = True
) -> "list[Entry]":
    """The layer's job, with its entries in the ledger.

    Idle tables leave nothing there, unless they failed before.

    `watched` looks for records that are gone at the source as well, in bronze, and in silver for
    positions that run backwards and snapshots that make up for either.
    """
    memory = given.memory or Memory()
    memory.merge_all = given.merge
    given = given._replace(memory=memory)
    run = given.run_id or uuid.uuid4().hex
    do = build_layer_job(layer, given.everything, memory)
    entries = try_conflicts_again(do, given, tables, run, tell)
    if layer == "bronze":
        memory.count(entries)
    if watched:
        entries = _check_sources(given, tables, layer, entries, tell)
    if layer in RECORDED_HERE:
        _write_entries(given, layer, to_keep(given, entries, memory), memory)
    return entries


def try_conflicts_again(
    do: "Job", given: Round, tables: Sequence[Table], run: str, tell: "Progress"
) -> "list[Entry]":
    """The job's entries; tables whose Delta transactions collided are done again a few times.

    No other failure is tried again.
    """
    done: dict[str, Entry] = {}
    again = list(tables)
    for _ in range(MOST_TRIES):
        done |= {entry.table: entry for entry in do(given.spark, given.target, again, run, tell)}
        again = [table for table in tables if done[table.table].conflict]
        if not again:
            break
    return list(done.values())


def _check_sources(
    given: Round, tables: Sequence[Table], layer: Layer, entries: "list[Entry]", tell: "Progress"
) -> "list[Entry]":
    """The entries, failed where records are gone at the source."""
    from bronze.loss.watch import watch_for_loss
    from silver.maintenance import closed_gaps

    if layer == "bronze":
        return watch_for_loss(
            given.spark, given.target, tables, entries, given.memory or Memory(), tell
        )
    if layer == "silver":
        return closed_gaps.check_gaps(given.spark, given.target, tables, entries)
    return entries


def _write_entries(given: Round, layer: Layer, entries: "list[Entry]", memory: Memory) -> None:
    """Writes entries into the ledger; those of bronze that silver follows wait for silver's."""
    from lakehouse.run import ledger

    followed = memory.defers and layer == "bronze" and any(map(_is_followed, entries))
    waits = [entry for entry in entries if followed and entry.status == "ok"]
    memory.waiting.extend(waits)
    ledger.append_entries(
        given.spark, given.target, [entry for entry in entries if entry not in waits]
    )


def to_keep(given: Round, entries: "Sequence[Entry]", memory: Memory) -> "list[Entry]":
    """The entries for the ledger: those with news, and the first after a failure."""
    from lakehouse.run import ledger

    if memory.failing is None and not all(map(has_news, entries)):
        memory.failing = ledger.find_failing(given.spark, given.target)
    failing = memory.failing or set()
    kept = [e for e in entries if has_news(e) or _identify_entry(e) in failing]
    if memory.failing is not None:
        for entry in kept:
            note = failing.discard if entry.status == "ok" else failing.add
            note(_identify_entry(entry))
        memory.failing = failing
    return kept


def _identify_entry(entry: "Entry") -> tuple[str, str]:
    return entry.layer, entry.table


def try_layer(
    given: Round, tables: Sequence[Table], layer: Layer, tell: "Progress", watched: bool = True
) -> "list[Entry]":
    """Does a layer; what fails for all tables at once, such as the ledger, fails each of them.

    Raises:
        SparkUnavailable: the session is gone, so that nothing could be tried again.
    """
    from lakehouse.run import ledger
    from lakehouse.spark.session import has_ended
    from lakehouse.spark.spark_failures import TABLE_FAILURES

    stop_if_pressed()
    began = datetime.now(timezone.utc)
    try:
        done = do_layer(given, tables, layer, tell, watched)
    except TABLE_FAILURES as failure:
        run, said = given.run_id or "none", describe_failure(failure)
        done = [ledger.make_entry(run, layer, table.table, began, said) for table in tables]
    stop_if_pressed()
    if any(entry.status == "failed" for entry in done) and has_ended(given.spark):
        raise session_ended(given.target)
    return done


@contextmanager
def write_entries_together(
    spark: "SparkSession", target: Target, layers: Sequence[Layer], memory: Memory | None
) -> Iterator[None]:
    """Within, bronze's entries go into the ledger with silver's, one commit for both.

    Entries that are left at the end are written then, unless the work broke off. A continuous run
    also has a session for small work.
    """
    from lakehouse.run import ledger
    from lakehouse.spark.session import interpreting_session

    memory = memory or Memory()
    if memory.among is not None and target.kind == "local":
        memory.brief = interpreting_session(spark)
    memory.defers = {"bronze", "silver"} <= set(layers)
    yield
    memory.defers = False
    ledger.append_with_waiting(spark, target, [], memory)


def _is_followed(entry: "Entry") -> bool:
    """Whether silver has something to do because of bronze's entry."""
    return entry.status == "ok" and entry.counts.get("records", 0) > 0


def has_news(entry: "Entry") -> bool:
    """Whether the work failed or counted anything."""
    return entry.status == "failed" or any(entry.counts.values())


def build_layer_job(layer: Layer, everything: list[Table] | None, memory: Memory) -> "Job":
    """The layer's function of `job.py`; gold and bronze know the tables that are not worked on."""
    if layer == "gold":
        from gold.job import publish

        return functools.partial(publish, configured=everything)
    memory.configured = everything
    if layer == "bronze":
        from bronze.job import ingest

        return functools.partial(ingest, memory=memory)
    from silver.job import apply

    return functools.partial(apply, memory=memory)
